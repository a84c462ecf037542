"""Models that have run before the export, and kept what they computed for the sizes of that run."""

from __future__ import annotations

import pytest
import torch
from torch import nn

PLANE = {"x": {0: "b", 1: "h", 2: "w"}}


class Gridded(nn.Module):
    """Adds a grid that it keeps, and cuts to so many frequencies as there are, of eight."""

    def __init__(self):
        super().__init__()
        self.grid, self.weight = None, nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        if self.grid is None or self.grid.shape != x.shape[1:]:
            self.grid = torch.outer(*(torch.linspace(0, 1, n) for n in x.shape[1:]))
        h, w = (min(n, 8) for n in x.shape[1:])
        modes = (x + self.grid)[:, :h, :w]
        if x.shape[1] < 8 or x.shape[2] < 8:
            return modes * self.weight[:h, :w].sum()
        return modes * self.weight


class Leaky(nn.Module):
    """A state that decays from step to step, and is made anew where the batch is another one."""

    def __init__(self):
        super().__init__()
        self.layer, self.state = nn.Linear(6, 8), torch.zeros(0)

    def forward(self, x):
        states = []
        for t in range(x.shape[0]):
            y = self.layer(x[t])
            if self.state.shape != y.shape:
                self.state = torch.zeros_like(y)
            elif t == 0:
                self.state = self.state * 0
            self.state = 0.9 * self.state + y
            states.append(self.state)
        return torch.stack(states)


@pytest.mark.parametrize("has_run", [False, True], ids=["new", "has run"])
def test_what_a_model_keeps_is_computed_beside_other_branches_on_sizes(proved, has_run):
    model, x = Gridded().eval(), torch.randn(2, 16, 20)
    if has_run:
        model(x)
    sizes = [{"b": 3, "h": 9, "w": 31}, {"b": 1, "h": 24, "w": 8}]
    program = proved(model, x, PLANE, sizes)
    assert not program.report.changed_buffers


@pytest.mark.parametrize("has_run", [False, True], ids=["new", "has run"])
def test_what_a_model_keeps_is_computed_before_a_loop(proved, has_run):
    model, x = Leaky().eval(), torch.randn(4, 3, 6)
    if has_run:
        model(x)
    sizes = [{"t": 1, "b": 2}, {"t": 9, "b": 1}, {"t": 5, "b": 7}]
    program = proved(model, x, {"x": {0: "t", 1: "b"}}, sizes)
    assert program.report.promised == {}
