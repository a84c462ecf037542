"""Objects that hold a size, and methods of theirs that return one: keys, lengths, indices."""

import collections
import dataclasses

import pytest
import torch

import hx


class Held:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Held) and self.n == other.n

    def __hash__(self):
        return hash(("rows", self.n))

    def __index__(self):
        return self.n


class OfItsOwnHash(Held):
    def __hash__(self):
        return self.n


@dataclasses.dataclass(frozen=True)
class Frozen:
    rows: int


def as_key(x):
    return x * {Held(13): 2.0, Held(131): 3.0}.get(Held(x.shape[0]), 1.0)


def in_a_set(x):
    return x * 2 if Held(x.shape[0]) in {Held(13), Held(131)} else x


def frozen_as_key(x):
    return x * {Frozen(13): 2.0, Frozen(131): 3.0}.get(Frozen(x.shape[0]), 1.0)


def hashed(x):
    return x * 2 if hash(OfItsOwnHash(x.shape[0])) in (13, 131) else x


def as_index(x):
    return x * [1.0, 2.0, 3.0][Held(x.shape[0] % 3)]


def popped(x):
    return x * {13: 2.0, 131: 3.0}.pop(x.shape[0], 1.0)


def set_by_default(x):
    return x * {13: 2.0, 131: 3.0}.setdefault(x.shape[0], 1.0)


def by_default(x):
    return x * collections.defaultdict(lambda: 1.0, {13: 2.0, 131: 3.0})[x.shape[0]]


def beside_a_size(x):
    held = {}
    held[x.shape[0]] = 1
    held[13] = 2
    return x * len(held)


@pytest.mark.parametrize(
    "model",
    [as_key, in_a_set, frozen_as_key, hashed, as_index, popped, set_by_default, by_default,
     beside_a_size],
)  # fmt: skip
def test_objects_are_compared_as_their_sizes_are(model):
    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    for n in (2, 3, 12, 13, 14, 130, 131):
        x = torch.randn(n, 4)
        try:
            found = program.run(x)
        except hx.UsageError:
            assert program.report.promised
            continue
        assert torch.allclose(found, model(x), atol=1e-5), n


def objects_in_a_set(x):
    return x * len({OfItsOwnHash(13), OfItsOwnHash(131), OfItsOwnHash(x.shape[0])})


def test_a_hash_that_compiled_code_takes_is_told():
    program = hx.export(objects_in_a_set, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    assert any("__hash__() returns n" in str(escape) for escape in program.report.escapes)


def test_none_stands_for_a_function():
    def model(x):
        return x * len([*filter(None, range(x.shape[0]))])

    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    x = torch.randn(9, 4)
    assert torch.allclose(program.run(x), 8 * x)
