"""Numbers that a factor makes of those of the round before."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def decays(x):
    return torch.stack([row * 0.9**i for i, row in enumerate(x)])


def decays_by_itself(x):
    weight, h, outs = 2.0, x[0] * 0, []
    for row in x:
        h = h * weight + row
        weight *= 0.97
        outs.append(h)
    return torch.stack(outs)


def grows(x):
    return torch.stack([x[i] / (1.05**i * 3) for i in range(len(x))])


def turns(x):
    return torch.stack([x[i] * (-1.0) ** i for i in range(len(x))])


def in_doubles(x):
    return torch.stack([row.double() * 0.999**i for i, row in enumerate(x)])


@pytest.mark.parametrize("model", [decays, decays_by_itself, grows, turns, in_doubles])
def test_powers_of_a_factor_are_counted(model):
    program = hx.export(model, torch.randn(9, 4), dynamic={"x": {0: "n"}})
    assert "are a loop in the graph" in str(program.report)
    for n in (1, 2, 3, 9, 40, 120):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-6)


def slower_at_first(x):
    weight, outs = 1.0, []
    for i, row in enumerate(x):
        outs.append(row * weight)
        weight *= 0.9 if i < 15 else 0.5
    return torch.stack(outs)


def test_another_factor_in_later_rounds_is_found_by_the_proof():
    with pytest.raises(hx.VerificationError):
        hx.export(slower_at_first, torch.randn(9, 4), dynamic={"x": {0: "n"}})
