"""Loops in loops, each as long as a size says."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def state_of_each(x):
    outs = []
    for b in range(x.shape[0]):
        h = torch.zeros(x.shape[2])
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[b, t])
        outs.append(h)
    return torch.stack(outs)


def one_list(x):
    outs = []
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            outs.append(torch.tanh(x[i, j]).sum())
    return torch.stack(outs)


def each_with_each(x):
    outs = []
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            outs.append((x[:, i] * x[:, j]).sum(-1))
    return torch.stack(outs, 1)


def sums_of_corners(x):
    out = torch.zeros(x.shape[0] + 1, x.shape[1] + 1, x.shape[2])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i + 1, j + 1] = x[i, j] + out[i, j + 1] + out[i + 1, j] - out[i, j]
    return out


def backwards(x):
    h = x.new_zeros(5)
    for i in reversed(range(x.shape[0])):
        for j in range(x.shape[1] - 1, -1, -1):
            h = h * 0.5 + x[i, j]
    return h


def tiles(x):
    outs = []
    for i in range(0, x.shape[0] - 1, 2):
        for j in range(0, x.shape[1] - 1, 2):
            outs.append(x[i : i + 2, j : j + 2])
    return torch.stack(outs)


def means_of_tiles(x):
    rows = []
    for i in range(x.shape[0] // 2):
        row = [x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((0, 1)) for j in range(x.shape[1] // 2)]
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize(
    "model", [state_of_each, one_list, each_with_each, sums_of_corners, backwards]
)
def test_loops_in_loops_are_loops_of_the_graph(model):
    program = hx.export(model, torch.randn(3, 4, 5), dynamic={"x": {0: "a", 1: "b"}})
    for a, b in ((3, 4), (7, 9), (2, 17), (5, 2), (1, 1)):
        x = torch.randn(a, b, 5)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [tiles, means_of_tiles])
def test_what_is_cut_out_in_loops_is_as_large_as_it_is(model):
    program = hx.export(model, torch.randn(8, 10, 3), dynamic={"x": {0: "a", 1: "b"}})
    assert "are a loop in the graph" in str(program.report)
    for a, b in ((8, 10), (9, 7), (2, 17), (5, 2), (2, 2), (31, 30)):
        x = torch.randn(a, b, 3)
        assert_close(program.run(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_round_may_give_many_entries():
    """Each round appends twelve numbers, like the anchors of one cell of a detector."""

    def boxes(x):
        numbers, n = [], x.shape[0]
        for i in range(n):
            at = (i + 0.5) / n
            for size in (0.1, 0.2, 0.3):
                numbers += [at, at * 2, size, size / 2]
        return x + torch.Tensor(numbers).view(-1, 12).sum(1, keepdim=True)

    program = hx.export(boxes, torch.randn(4, 5), dynamic={"x": {0: "n"}})
    for n in (1, 4, 30):
        x = torch.randn(n, 5)
        assert_close(program.run(x), boxes(x), rtol=1e-4, atol=1e-4)
