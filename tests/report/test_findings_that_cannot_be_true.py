"""Values that left the graph and came back, followed, are no open findings of a proved file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import hx
from hx.findings import OPEN


class Grown(nn.Module):
    """A table that grows with the longest input."""

    def __init__(self):
        super().__init__()
        self.table = torch.arange(8.0).cos()

    def forward(self, x):
        n = x.shape[0]
        if n > len(self.table):
            self.table = torch.arange(float(n)).cos()
        return x * self.table[:n, None]


def test_a_table_that_grows_is_proved_on_both_sides():
    model = Grown()
    program = hx.export(model, torch.randn(5, 4), None, dynamic={"x": {0: "n"}})
    assert not program.report.promised
    assert not [each for each in program.report.findings if each.level == OPEN]
    for n in (1, 4, 8, 9, 70):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), model(x))


def read_by_iterating(x):
    return x * (1 + sum(value > 1e12 for value in x.numpy().flat))


def read_from_memory(x):
    return x * (2 if memoryview(x.numpy())[0, 0] > 1e12 else 1)


@pytest.mark.parametrize("model", [read_by_iterating, read_from_memory])
def test_an_array_that_anybody_may_read_is_open(model):
    """Nobody sees the reads, and the proof does not try such values."""
    program = hx.export(model, torch.randn(5, 4), None)
    assert [each for each in program.report.findings if each.level == OPEN]


def test_what_numpy_alone_computes_is_still_open():
    def model(x):
        weights = np.array([x.shape[0]] * 4, np.float32)
        return x + torch.tensor(np.frombuffer(x.numpy().tobytes(), np.float32)[:4] * 0 + weights)

    program = hx.export(model, torch.randn(5, 4), None)
    assert [each for each in program.report.findings if each.level == OPEN]
