"""Loops that begin at one size and end at another: a horizon behind what is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx


def operators(program) -> list[str]:
    return [node.op_type for node in program.model.graph]


def forecast(x, known):
    h, outs = x[:, -1], []
    for t in range(x.shape[1], known.shape[1]):
        h = 0.9 * h + known[:, t]
        outs.append(h)
    return torch.stack(outs, 1)


def as_many_again(x, known):
    n = x.shape[1]
    return torch.stack([known[:, i].sum(-1) for i in range(n, n + known.shape[1] - n)], 1)


@pytest.mark.parametrize("more", [4, 12])
@pytest.mark.parametrize("model", [forecast, as_many_again])
def test_from_one_size_to_another(model, more):
    given = torch.randn(2, 8, 3), torch.randn(2, 8 + more, 3)
    dynamic = {"x": {0: "b", 1: "t"}, "known": {0: "b", 1: "u"}}
    program = hx.export(model, given, dynamic=dynamic)
    assert "Loop" in operators(program)
    for t, u in ((1, 2), (3, 30), (20, 21), (9, 14)):
        x, known = torch.randn(3, t, 3), torch.randn(3, u, 3)
        assert_close(program.run(x, known), model(x, known), msg=f"from {t} to {u}")


def second_half(x):
    h, outs = x[:, 0] * 0, []
    for i in range(x.shape[1] // 2, x.shape[1]):
        h = torch.tanh(h + x[:, i])
        outs.append(h)
    return torch.stack(outs, 1)


def last_three(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1] - 3, x.shape[1]):
        h = torch.tanh(h + x[:, i])
    return h


def of_a_list(x):
    parts = [x[:, i] for i in range(x.shape[1])]
    h = x[:, 0] * 0
    for i in range(x.shape[1] // 2, x.shape[1]):
        h = torch.tanh(h + parts[i])
    return h


def written(x):
    half, h = x.shape[1] // 2, x.clone()
    for i in range(half, x.shape[1]):
        h[:, i] = h[:, i - half] * 2
    return h


def every_fourth(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1] % 4, x.shape[1], 4):
        h = torch.tanh(h + x[:, i])
    return h


@pytest.mark.parametrize("model", [second_half, last_three, of_a_list, written, every_fourth])
def test_from_a_size_that_follows_from_another(model):
    program = hx.export(model, torch.randn(2, 9, 3), dynamic={"x": {0: "b", 1: "n"}})
    for n in (4, 5, 9, 16, 31, 50):
        x = torch.randn(3, n, 3)
        assert_close(program.run(x), model(x), msg=f"at {n}")


def one_more(rewards, values):
    last = torch.zeros_like(rewards[0])
    for t in range(rewards.shape[0]):
        last = rewards[t] + values[t + 1] + 0.9 * last
    return last


def test_a_size_that_has_to_be_larger_than_another():
    """More rounds alone are none that the model takes."""
    given = torch.randn(6, 3), torch.randn(7, 3)
    program = hx.export(one_more, given, dynamic={"rewards": {0: "t"}, "values": {0: "t1"}})
    for t, more in ((1, 2), (4, 9), (20, 21), (33, 50)):
        other = torch.randn(t, 3), torch.randn(more, 3)
        assert_close(program.run(*other), one_more(*other))


class Turning(nn.Module):
    """A complex state, of which the first rounds know that it has no imaginary part yet."""

    def forward(self, x):
        h = torch.zeros(x.shape[1], dtype=torch.complex64)
        for t in range(x.shape[0]):
            h = h * (0.5 + 0.5j) + x[t]
        return h


def test_a_complex_state_is_returned():
    program = hx.export(Turning(), torch.randn(6, 3), dynamic={"x": {0: "t"}})
    assert program.report.promised == {"t": "t>=2"}
    for steps in (2, 3, 40):
        x = torch.randn(steps, 3)
        assert_close(program.run(x), Turning()(x))
