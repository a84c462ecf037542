"""Loops with an end of their own: `range(min(n, 5))` never has the rounds that others are known by."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def carried(x):
    h = torch.zeros_like(x[0])
    for i in range(min(x.shape[0], 5)):
        h = torch.tanh(h + x[i])
    return h


def four(x):
    h = torch.zeros_like(x[0])
    for i in range(min(4, x.shape[0])):
        h = torch.tanh(h + x[i])
    return h


def stacked(x):
    return torch.stack([torch.tanh(x[i]) * (i + 1) for i in range(min(x.shape[0], 5))])


def first_rows(x):
    return torch.stack([torch.tanh(row) for row in x[:5]])


def the_best(x):
    return torch.stack([x[i] * 2 for i in x.sum(1).topk(min(5, x.shape[0])).indices])


def asked_each_time(x):
    h = torch.zeros_like(x[0])
    for i in range(min(x.shape[0], 5)):
        if x[i].sum() > 0:
            h = torch.tanh(h + x[i])
    return h


def in_each_other(x):
    h = torch.zeros(x.shape[1])
    for i in range(min(x.shape[0], 5)):
        for j in range(min(x.shape[1], 4)):
            h = torch.tanh(h + x[i] * x[i, j])
    return h


@pytest.mark.parametrize("rows", [6, 3])
@pytest.mark.parametrize("model", [carried, four, stacked, first_rows, the_best, asked_each_time])
def test_a_few_rounds_at_the_most_are_a_loop(model, rows):
    require_right(model, torch.randn(rows, 4))


def test_one_in_the_other():
    require_right(in_each_other, torch.randn(6, 4))


def require_right(model, x):
    program = hx.export(model, x, None, dynamic={"x": {0: "n", 1: "m"}})
    assert not program.report.promised
    assert "Loop" in {node.op_type for node in program.model.graph}
    for n, m in ((1, 3), (2, 1), (4, 4), (5, 6), (9, 5), (70, 2)):
        x = torch.randn(n, m)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def each_of_the_batch(x):
    return torch.stack([torch.tanh(x[b]).cumsum(0) for b in range(x.shape[0])])


@pytest.mark.parametrize(("limit", "rows"), [("n<=8", 1), ("n<=8", 4), ("n<=5", 2), ("n<=4", 4)])
def test_a_limit_of_a_size_is_one_of_its_rounds(limit, rows):
    x = torch.randn(rows, 3)
    program = hx.export(each_of_the_batch, x, None, dynamic={"x": {0: limit}})
    assert "Loop" in {node.op_type for node in program.model.graph}
    for n in range(1, int(limit[-1]) + 1):
        x = torch.randn(n, 3)
        assert_close(program.run(x), each_of_the_batch(x))


def test_no_size_is_tried_beyond_its_limit():
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(each_of_the_batch, torch.randn(3, 3), None, dynamic={"x": {0: "n<=3"}})
    assert "n=1" in str(refused.value) and "n=4" not in str(refused.value)


def test_three_at_the_most_are_too_few():
    def of_three(x):
        h = torch.zeros_like(x[0])
        for i in range(min(x.shape[0], 3)):
            h = torch.tanh(h + x[i])
        return h

    program = hx.export(of_three, torch.randn(6, 4), None, dynamic={"x": {0: "n"}})
    assert str(program.report.promised) == "{'n': 'n>=3'}"


def test_as_many_as_it_has_layers_are_not_taken_for_those():
    layers = [torch.nn.Linear(4, 4) for _ in range(5)]

    def of_five_layers(x):
        for layer in layers:
            x = layer(x)
        return torch.stack([x[i].sum() + i for i in range(min(x.shape[0], 5))])

    program = hx.export(of_five_layers, torch.randn(6, 4), None, dynamic={"x": {0: "n"}})
    for n in (1, 3, 5, 8):
        x = torch.randn(n, 4)
        assert_close(program.run(x), of_five_layers(x), rtol=1e-4, atol=1e-5)
