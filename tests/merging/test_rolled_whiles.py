"""`while` on a size: what counts is Python's, and the rounds are a Loop all the same."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def up_to_a_size(x):
    i, h, outs = 0, x[0] * 0, []
    while i < x.shape[0]:
        h = torch.tanh(h + x[i])
        outs.append(h)
        i += 1
    return torch.stack(outs)


def as_long_as_the_list_is_shorter(x):
    h, outs = x[0] * 0, []
    while len(outs) < len(x):
        h = torch.tanh(h + x[len(outs)])
        outs.append(h)
    return torch.stack(outs)


def in_steps_of_two(x):
    i, h = 0, x[0] * 0
    while i + 1 <= x.shape[0] - 1:
        h = torch.tanh(h + x[i] * x[i + 1])
        i += 2
    return h


def until_it_breaks(x):
    i, outs = 0, []
    while True:
        if i >= x.shape[0]:
            break
        outs.append(x[i : i + 4].sum(0))
        i += 4
    return torch.stack(outs)


def down_to_nothing(x):
    n, h = x.shape[0], x[0] * 0
    while n > 0:
        h = torch.tanh(h * x[n - 1] + 1)
        n -= 1
    return h


@pytest.mark.parametrize(
    "model",
    [up_to_a_size, as_long_as_the_list_is_shorter, in_steps_of_two, until_it_breaks,
     down_to_nothing],
)  # fmt: skip
@pytest.mark.parametrize("n", [4, 12])
def test_any_number_of_rounds(model, n):
    program = hx.export(model, torch.randn(n, 4), dynamic={"x": {0: "n"}}, strict=True)
    assert "Loop" in {node.op_type for node in program.model.graph}
    for n in (1, 2, 3, 4, 5, 12, 13, 40):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def halves(x):
    n = x.shape[0]
    while n > 1:
        n = n // 2
        x = x * 0.5
    return x


def at_most_nine(x):
    for i in range(9):
        if i >= x.shape[0]:
            break
        x = x + x[i] * 0.1
    return x


@pytest.mark.parametrize("model", [halves, at_most_nine])
def test_what_does_not_count_up_to_the_size_is_no_such_loop(model):
    """It is promised for the sizes that it is right for, or refused."""
    try:
        program = hx.export(model, torch.randn(4, 4), dynamic={"x": {0: "n"}})
    except hx.VerificationError:
        return
    for n in range(1, 40):
        x = torch.randn(n, 4)
        try:
            got = program.run(x)
        except hx.UsageError:
            continue  # not promised
        assert_close(got, model(x))
