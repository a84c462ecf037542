"""Models that ask whether they are being traced."""

import pytest
import torch
from torch import nn

import hx


class Cached(nn.Module):
    """Returns its state, too, but not to a tracer, as decoders with a cache do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        state = self.first(x).tanh()
        y = {"y": self.second(state)}
        if not torch.jit.is_tracing():
            y["state"] = state
        return y


class Positions(nn.Module):
    """Has a way of its own for tracers, which fits every size."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(1, 3, 6))

    def forward(self, x):
        if not torch.jit.is_tracing() and x.shape[2] == 6:
            return x + self.table
        return x + nn.functional.interpolate(self.table, size=x.shape[2:], mode="linear")


def test_what_is_left_out_for_a_tracer_is_in_the_graph():
    x = torch.randn(2, 4)
    program = hx.export(Cached(), x, None, dynamic={"x": {0: "n"}})
    assert [out["name"] for out in program.report.outputs] == ["y", "state"]
    assert program.proof.ok


@pytest.mark.parametrize("size", [6, 9])
def test_the_way_for_tracers_is_taken(size):
    model, x = Positions(), torch.randn(2, 3, size)
    program = hx.export(model, x, None, dynamic={"x": {2: "n"}})
    assert not program.report.escapes
    assert program.proof.ok
