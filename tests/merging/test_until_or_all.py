"""Loops over as many rounds as a size says, unless a value ends them before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx

BY_LENGTH = {"x": {0: "n"}}


def total_by_number(x):
    total = torch.zeros(4)
    for i in range(x.shape[0]):
        total = total + x[i]
        if total.sum() > 3:
            break
    return total


def total_of_rows(x):
    total = torch.zeros(4)
    for row in x:
        if row.sum() < 0:
            break
        total = total + row
    return total + x.mean(0)


def counted(x):
    count = torch.zeros(())
    for i, row in enumerate(x):
        count = count + i
        if row.max() > 1.5:
            break
    return count


class Halting(nn.Module):
    """Steps until the model itself is sure enough."""

    def __init__(self):
        super().__init__()
        self.cell, self.halt = nn.GRUCell(4, 6), nn.Linear(6, 1)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], 6)
        for step in x:
            h = self.cell(step, h)
            if self.halt(h).sigmoid().mean() > 0.6:
                break
        return h


@pytest.mark.parametrize("model", [total_by_number, total_of_rows, counted])
def test_a_value_ends_a_loop_over_rows(model):
    torch.manual_seed(1)
    program = hx.export(model, torch.randn(5, 4), None, dynamic=BY_LENGTH)
    assert [node.op_type for node in program.model.graph].count("Loop") == 1
    for n in (1, 2, 5, 6, 40):
        for shift in (-2.0, -0.3, 0.0, 0.3, 2.0):
            x = torch.randn(n, 4) + shift
            torch.testing.assert_close(program.run(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_recurrent_layer_that_halts():
    torch.manual_seed(1)
    model = Halting().eval()
    program = hx.export(model, torch.randn(5, 2, 4), None, dynamic={"x": {0: "t", 1: "b"}})
    for t in (1, 2, 9, 40):
        x = torch.randn(t, 3, 4) * 3
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)
