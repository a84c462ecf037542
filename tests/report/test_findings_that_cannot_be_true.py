"""Values that left the graph and came back, followed, are no open findings of a proved file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import hx
from hx.findings import OPEN


def through_numpy(x):
    return torch.from_numpy(x.numpy()) * 2


def totals_by_numpy(x):
    return x + torch.as_tensor(x.cpu().numpy().sum(0, keepdims=True))


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


@pytest.mark.parametrize("model", [through_numpy, totals_by_numpy, Grown()])
def test_nothing_is_open(model):
    program = hx.export(model, torch.randn(5, 4), None, dynamic={"x": {0: "n"}})
    assert not program.report.promised
    assert not [each for each in program.report.findings if each.level == OPEN]
    for n in (1, 4, 8, 9, 70):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), model(x))


def test_numbers_of_numpy_are_still_open():
    def model(x):
        return x * (1 if float(np.cbrt(x.numpy()).max()) > -100 else 2)

    program = hx.export(model, torch.randn(5, 4), None)
    assert [each for each in program.report.findings if each.level == OPEN]


def test_what_numpy_alone_computes_is_still_open():
    def model(x):
        weights = np.array([x.shape[0]] * 4, np.float32)
        return x + torch.tensor(np.frombuffer(x.numpy().tobytes(), np.float32)[:4] * 0 + weights)

    program = hx.export(model, torch.randn(5, 4), None)
    assert [each for each in program.report.findings if each.level == OPEN]
