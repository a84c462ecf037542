"""Loops over sizes that follow from others: of what was shifted, halved, or picked."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

import hx
from hx.ir.sizes import bounds
from hx.ir.sizes.bounds import never_negative
from hx.ir.sizes.comparisons import At
from hx.ir.sizes.size_operations import binary, from_something
from hx.ir.sizes.size_polynomials import Atom, Poly


def rounds(x):
    h = x.sum(1) * 0
    for t in range(x.shape[1]):
        h = torch.tanh(h + x[:, t])
    return h


def token_shift(x):
    return rounds(x + F.pad(x, (0, 0, 1, -1)))


def the_other_token_shift(x):
    return rounds(torch.cat([x[:, :1], x[:, :-1]], 1) - x)


def halves(x):
    n = x.shape[1] // 2
    return rounds(x[:, :n] * x[:, n : 2 * n])


def even_and_odd(x):
    n = x.shape[1] // 2
    return rounds(x[:, ::2][:, :n] + x[:, 1::2][:, :n])


def what_a_mask_picks(x):
    return rounds(x[:, x[0, :, 0] > -0.5])


def of_a_product_with_it(x):
    kept = torch.eye(x.shape[1])[:, x[0, :, 0] < 9]
    return rounds(torch.einsum("bnc,nd->bdc", x, kept))


@pytest.mark.parametrize(
    "model",
    [token_shift, the_other_token_shift, halves, even_and_odd, what_a_mask_picks,
     of_a_product_with_it],
)  # fmt: skip
def test_as_often_as_a_size_that_follows_from_another_says(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 8, 4), dynamic={"x": {0: "b", 1: "n"}})
    assert all(escape.carried for escape in program.report.escapes)
    for length in (2, 8, 9, 20, 33):
        x = torch.randn(3, length, 4)
        assert_close(program.run(x), model(x))


def drawn(depth):
    """Some size of sizes n and m."""
    if depth == 0:
        named = [Poly.of(Atom("size", (name, 0), 5)) for name in "nm"]
        return random.choice([*named, Poly.of(random.randint(-3, 3))])
    kind = random.choice(["add", "sub", "mul", "div", "div", "mod", "min", "max"])
    a, b = drawn(depth - 1), drawn(depth - 1)
    if kind in ("add", "sub"):
        return a + b * Poly.of(1 if kind == "add" else -1)
    if kind == "mul":
        return a * Poly.of(random.randint(-2, 3))
    return binary(kind, a, Poly.of(random.randint(1, 4)) if kind in ("div", "mod") else b)


def test_what_is_known_of_sizes_is_true_of_them():
    random.seed(0)
    for _ in range(400):
        poly = drawn(random.choice([2, 3, 4]))
        same, counts = from_something(poly), never_negative(poly)
        for n in range(8):
            for m in range(8):
                at = At({"n": n, "m": m})
                assert at(poly) >= 0 or not counts
                assert at(poly) == at(same) or not (n and m)


def test_a_bound_below_zero_as_recorded_is_followed_no_further(monkeypatch):
    low, high, steps = Poly.of(0), Poly.of(Atom("size", ("n", 0), 64)), []
    for _ in range(4):  # the middle of a middle
        low = binary("div", low + high, Poly.of(2))
    given = bounds._undivided
    monkeypatch.setattr(bounds, "_undivided", lambda poly: steps.append(poly) or given(poly))
    assert not bounds.settled("==", high - low, Poly.of(1))
    assert all(poly.hint >= 0 for poly in steps)


def each_that_is_positive(x):
    y = torch.zeros_like(x)
    for place in (x[:, 0] > 0).nonzero():
        y = y + x[place]
    return y


def written_where_it_was_found(x):
    y = torch.zeros_like(x)
    for place in (x[:, 0] > 0).nonzero().squeeze(1):
        y[place] = x[place] * 2
    return y


def each_class_that_there_is(x):
    kinds, y = (x[:, 0] * 20).long(), torch.zeros_like(x)
    for kind in kinds.unique():
        y = y + torch.where((kinds == kind)[:, None], x * kind, x * 0)
    return y


def a_row_for_each(x):
    return torch.stack([torch.tanh(row) + row.sum() for row in x[x[:, 0] > -3]])


def those_in_a_list(x):
    y = torch.zeros_like(x)
    for i in (x[:, 0] > 0).nonzero().flatten().tolist():
        y[i] = x[i] * 2 + y[i - 1]
    return y


@pytest.mark.parametrize("length", [3, 8])
@pytest.mark.parametrize(
    "model",
    [
        each_that_is_positive, written_where_it_was_found, each_class_that_there_is, a_row_for_each,
        those_in_a_list,
    ],
)  # fmt: skip
def test_as_many_rounds_as_there_are_found(model, length):
    """However few were found in what the export was given."""
    torch.manual_seed(4)
    program = hx.export(model, torch.randn(length, 4), dynamic={"x": {0: "n"}})
    assert all(escape.carried for escape in program.report.escapes)
    assert "as many as what is in tensors says" in program.report.notes[-1]
    for length in (1, 3, 8, 20):
        for x in (torch.randn(length, 4), torch.rand(length, 4), -torch.rand(length, 4)):
            assert_close(program.run(x), model(x))
