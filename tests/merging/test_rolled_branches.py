"""A branch on values in each round of a loop as long as a size says: an If in the Loop."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx
from hx.budget import BUDGET

torch.manual_seed(0)
LAYER = nn.Linear(4, 4)


def kept_where_not(x):
    h = torch.zeros(x.shape[0], 4)
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            h = torch.tanh(LAYER(h) + x[:, t])
    return h


def either_way(x):
    h, outs = x[:, 0], []
    for t in range(x.shape[1]):
        if float(x[:, t].mean()) > 0:
            h = torch.tanh(LAYER(h) + x[:, t])
        else:
            h = h * 0.5
        outs.append(h)
    return torch.stack(outs, 1)


def skipped(x):
    h, outs = x[:, 0], []
    for t, row in enumerate(x.unbind(1)):
        if row.sum() < 0:
            outs.append(h)
            continue
        h = h + row * t
        outs.append(h)
    return torch.stack(outs, 1)


def written_where(x):
    out, h = torch.zeros_like(x), x[:, 0]
    for t in range(x.shape[1] - 1, -1, -1):
        if x[:, t].sum() > 0:
            h = LAYER(h)
            out[:, t] = h
    return out


def three_ways(x):
    """What is asked follows from the rounds before, and something counts what was answered."""
    h, count = x[:, 0], torch.zeros(())
    for t in range(x.shape[1]):
        if h.sum() > 0.5:
            h = h - x[:, t]
        elif h.sum() < -0.5:
            h = h + x[:, t].abs()
        if x[:, t].max() > 1:
            count = count + 1
        h = h * 0.9
    return h + count


def two_in_a_round(x):
    h, y = x[:, 0], x[:, 0] * 2
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            y = torch.tanh(y + x[:, t])
        if x[:, t].max() > 1:
            h = h * 0.5 + y
    return h


def reading(x):
    """A plain number of the data, on one side alone."""
    h = x[:, 0]
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            h = h + round(float(x[0, t, 0]), 1)
    return h


def counting(x):
    h, k = x[:, 0], 0
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            k += 1
        h = h * 0.5 + x[:, t] * k
    return h


def collecting(x):
    found = [x[:, 0]]
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            found.append(x[:, t])
    return torch.stack(found)


MODELS = [
    kept_where_not, either_way, skipped, written_where, three_ways, two_in_a_round, reading,
    counting, collecting,
]  # fmt: skip


def same(program, model) -> None:
    for size in ((3, 6), (2, 9), (1, 4), (4, 17), (5, 2), (2, 3), (1, 40)):
        for scale in (1, 0.1, 3):
            x = torch.randn(*size, 4) * scale
            with torch.no_grad():
                assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", MODELS, ids=lambda kind: kind.__name__)
def test_a_branch_in_each_round(model):
    torch.manual_seed(1)
    program = hx.export(model, torch.randn(3, 6, 4), None, dynamic={"x": {0: "b", 1: "n"}})
    assert "Loop" in {node.op_type for node in program.model.graph}
    told = ("are in each round", "both sides of the Ifs in its loops are computed")
    assert any(text in note for text in told for note in program.report.notes)
    same(program, model)


@pytest.mark.parametrize("rounds", [3, 60])
def test_it_is_recorded_with_as_many_rounds_as_are_needed(rounds):
    torch.manual_seed(1)
    program = hx.export(kept_where_not, torch.randn(3, rounds, 4), None, dynamic={"x": {1: "n"}})
    torch.manual_seed(2)
    for n in (1, 7, 30, 100):
        x = torch.randn(3, n, 4)
        with torch.no_grad():
            assert_close(program.run(x), kept_where_not(x), rtol=1e-4, atol=1e-5)


def growing(x):
    """Its state has another shape on the other side."""
    h = x[:, 0]
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            h = torch.cat([h, x[:, t]])
    return h


def test_what_becomes_no_if_is_refused():
    torch.manual_seed(1)
    with pytest.raises(hx.HxError, match="not become one If in a loop"):
        hx.export(growing, torch.randn(3, 6, 4), None, dynamic={"x": {1: "n"}})


def test_a_model_that_runs_too_long_for_that_is_refused_soon(limit):
    limit(BUDGET.work, branches_in_rounds=1)
    with pytest.raises(hx.HxError, match="runs too long to be recorded for each round"):
        hx.export(growing, torch.randn(3, 6, 4), None, dynamic={"x": {1: "n"}})
