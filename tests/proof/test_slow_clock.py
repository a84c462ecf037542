"""No clock decides: with a clock that runs ten times as fast, files and reports are the same."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

import hx


class Halved(nn.Module):
    """A loop that values end, which never ends on infinities."""

    def forward(self, x):
        while (x.abs() > 1).any():
            x = x / 2
        return x


class Scaled(nn.Module):
    """A branch on values."""

    def forward(self, x):
        return x / 255 if x.max() > 1 else x


class Decay(nn.Module):
    """A loop over a size."""

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = 0.9 * state + x[:, t]
        return state


class Gated(nn.Module):
    """A branch in the rounds of a loop."""

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            if x[:, t].sum() > 0:
                state = state + x[:, t]
        return state


class Table(nn.Module):
    """A number that depends on a size far off."""

    def forward(self, x):
        return x * int(f"{x.shape[0]:04d}"[1])


def shown(model, inputs, dynamic, path):
    torch.manual_seed(0)
    program = hx.export(model, inputs, path, dynamic=dynamic)
    report = program.report
    cases = [(case.name, case.ok) for case in program.proof.cases]
    return path.read_bytes(), cases, report.notes, report.promised, [str(e) for e in report.escapes]


@pytest.mark.parametrize(
    ("model", "inputs", "dynamic"),
    [
        (Halved, torch.tensor([20.0, -3.0]), None),
        (Scaled, torch.rand(3), None),
        (Decay, torch.ones(2, 5, 3), {"x": {1: "t"}}),
        (Gated, torch.arange(30.0).reshape(2, 5, 3) - 20, {"x": {1: "t"}}),
        (Table, torch.ones(9, 2), {"x": {0: "n"}}),
    ],
)
def test_a_slow_machine_comes_to_the_same(monkeypatch, tmp_path, model, inputs, dynamic):
    usual = shown(model(), inputs, dynamic, tmp_path / "model.onnx")
    for name in ("perf_counter", "monotonic"):
        clock = getattr(time, name)
        monkeypatch.setattr(time, name, lambda clock=clock: 10_000 * clock())
    assert shown(model(), inputs, dynamic, tmp_path / "model.onnx") == usual
