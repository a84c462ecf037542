"""Loops over what data pick, of which there may be nothing, and models that ask whether there is."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def by_its_length(x, y):
    outs = [torch.tanh(x[i]) for i in (y > 1).nonzero()[:, 0]]
    if len(outs) == 0:
        return torch.zeros(1, 4)
    return torch.stack(outs)


def by_the_list(x, y):
    outs: list[torch.Tensor] = []
    for i in (y > 1).nonzero()[:, 0]:
        outs.append(torch.tanh(x[i]))
    if not outs:
        return x.sum(0)
    return torch.stack(outs).amax(0)


def in_an_expression(x, y):
    h, outs = x.mean(0), []
    for i in torch.where(y > 1)[0].tolist():
        h = torch.tanh(h * 0.5 + x[i])
        outs.append(h)
    return (torch.cat(outs).sum() if outs and x.dim() == 2 else x.sum()) + h


def on_both_sides(x, y):
    outs = []
    for i in (y > 1).nonzero()[:, 0]:
        outs.append(x[i])
        outs.append(x[i] * 2)
    if outs:
        made = torch.stack(outs)
        total = made.sum(0)
    else:
        total = x[0] * 3
    return total + x


def the_last_of_them(x, y):
    outs = [torch.tanh(x[i]) for i in (y > 1).nonzero()[:, 0]]
    return outs[-1] if outs else x[0]


@pytest.mark.parametrize(
    "model", [by_its_length, by_the_list, in_an_expression, on_both_sides, the_last_of_them]
)
def test_a_list_with_nothing_in_it(model):
    x, y = torch.randn(6, 4), torch.tensor([0, 2, 1, 3, 2, 2])
    program = hx.export(model, (x, y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    notes = " ".join(program.report.notes)
    assert "both ways" in notes and "is not proved" not in notes
    for n, most in ((1, 1), (4, 2), (1, 9), (9, 5), (30, 5)):
        x, y = torch.randn(n, 4), torch.randint(most, (n,))
        assert_close(program.run(x, y), model(x, y), msg=f"{n}: {y}")


def test_a_list_as_long_as_a_size_is_not_asked():
    def model(x):
        outs = []
        for row in x:
            outs.append(row * 2)
        return torch.stack(outs) if outs else x

    program = hx.export(model, torch.randn(3, 4), dynamic={"x": {0: "n"}})
    assert all(escape.carried for escape in program.report.escapes)
    x = torch.randn(9, 4)
    assert_close(program.run(x), model(x))
