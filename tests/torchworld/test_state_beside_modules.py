"""State around functions, in defaults and in globals: restored after each run where it matters."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import hx

CALLS = 0
MEMO: dict[str, int] = {}
ARRAY = np.ones(3, np.float32)


def counted():
    calls = 0

    def model(x):
        nonlocal calls
        calls += 1
        return x * calls

    return model


def counted_forward():
    calls = 0

    class Counted(nn.Module):
        def forward(self, x):
            nonlocal calls
            calls += 1
            return x * calls

    return Counted()


def held_by_a_module():
    class Holding(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = counted()

        def forward(self, x):
            return self.inner(x) + 1

    return Holding()


def memo_of_data():
    memo = {}

    def model(x):
        if "mean" not in memo:
            memo["mean"] = x.mean()
        return x - memo["mean"]

    return model


def made_at_the_first_call():
    mean = None

    def model(x):
        nonlocal mean
        if mean is None:
            mean = x.mean()
        return x - mean

    return model


def tensor_around():
    weight = torch.ones(3)

    def model(x):
        weight.add_(1)
        return x * weight

    return model


def global_number():
    def model(x):
        global CALLS
        CALLS += 1
        return x * CALLS

    return model


def global_table():
    def model(x):
        MEMO["calls"] = MEMO.get("calls", 0) + 1
        return x * MEMO["calls"]

    return model


def global_array():
    def model(x):
        ARRAY[0] += 1
        return x * float(ARRAY.sum())

    return model


def default():
    def model(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * len(seen)

    return model


def argument_of_a_partial():
    def model(seen, x):
        seen.append(1)
        return x * len(seen)

    return functools.partial(model, [])


class Callable:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.calls

    def method(self, x):
        return self(x)


MODELS = [
    counted, counted_forward, held_by_a_module, memo_of_data, made_at_the_first_call, tensor_around,
    global_number, global_table, global_array, default, argument_of_a_partial, Callable,
    lambda: Callable().method,
]  # fmt: skip


@pytest.mark.parametrize("make", MODELS)
def test_the_export_is_that_of_the_first_call(make):
    model, x = make(), torch.arange(6.0).reshape(2, 3)
    program = hx.export(model, x, dynamic={"x": {0: "n"}})
    assert program.proof.ok
    [note] = program.report.notes
    assert "the model answers its next call otherwise, by what it keeps (" in note
    torch.testing.assert_close(program.run(x + 5), model(x + 5))


def test_the_finding_has_the_line():
    findings = hx.export(counted(), torch.ones(2)).report.findings
    found = next(each for each in findings if "answers its next call" in each.text)
    line = counted.__code__.co_firstlineno + 5
    assert found.where.line == line and found.place.endswith(f"{__file__}:{line}")


def test_what_is_only_told_is_left_to_the_one_who_hears_it():
    seen, runs = [], 0

    class Telling(nn.Module):
        def forward(self, x):
            nonlocal runs
            runs += 1
            seen.append(tuple(x.shape))
            return x.relu()

    program = hx.export(Telling(), torch.ones(2, 3), dynamic={"x": {0: "n"}})
    assert not program.report.notes
    assert seen[0] == (2, 3) and (1, 3) in seen and runs == len(seen)


def test_a_table_of_what_sizes_alone_decide_stays():
    tables = {}

    class Tabled(nn.Module):
        def forward(self, x):
            n = int(x.shape[1])
            if n not in tables:
                tables[n] = torch.arange(n) / 7
            return x + tables[n]

    model, x = Tabled(), torch.randn(2, 3)
    program = hx.export(model, x, dynamic={"x": {0: "n"}})
    assert program.proof.ok and not program.report.notes and 3 in tables
    torch.testing.assert_close(program.run(x), model(x))


def test_what_is_built_at_the_first_call_is_kept():
    built = []
    layer = None

    class Building(nn.Module):
        def forward(self, x):
            nonlocal layer
            if layer is None:
                built.append(1)
                torch.manual_seed(0)
                layer = nn.Linear(3, 3)
            return layer(x)

    model, x = Building(), torch.randn(2, 3)
    model(x)
    program = hx.export(model, x)
    assert program.proof.ok and built == [1]
    torch.testing.assert_close(program.run(x), model(x))


def test_a_model_is_not_kept_alive():
    model = counted()
    held = weakref.ref(model)
    hx.export(model, torch.ones(2))
    del model
    gc.collect()
    assert held() is None


def test_tensors_that_a_cache_holds_from_inside_of_a_vmap_are_left_alone():
    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights, self.cache = nn.Parameter(torch.randn(3, 4, 2)), {}

        def one(self, weight, x):
            self.cache["last"] = weight
            return x @ weight

        def forward(self, x):
            return torch.vmap(self.one, (0, None))(self.weights, x)

    model, x = Ensemble(), torch.randn(5, 4)
    model(x)
    program = hx.export(model, x, dynamic={"x": {0: "n"}})
    y = torch.randn(7, 4)
    torch.testing.assert_close(program.run(y), model(y))
