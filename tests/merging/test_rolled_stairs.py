"""Numbers of rounds that rise in some of them only: the places of windows, chunks and turns."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.testing import assert_close

import hx


def chunk_mask(x, chunk=3):
    mask, n = torch.zeros(len(x), len(x), dtype=torch.bool), len(x)
    for i in range(n):
        mask[i, max((i // chunk - 1) * chunk, 0) : min((i // chunk + 1) * chunk, n)] = True
    return x + mask.float() @ x


def windows(x):
    return torch.stack([x[max(0, i - 3) : i + 4].sum(0) for i in range(len(x))])


def up_to_the_sixth(x):
    h = x[0] * 0
    for i in range(len(x)):
        h = h * 0.5 + x[i] * x[min(i, 5)]
    return h


def by_steps_down(x):
    return torch.stack([x[i] * (40 - 4 * (i // 2)) for i in range(len(x))])


def by_turns(x):
    h, outs = x[0] * 0, []
    for i in range(len(x)):
        h = torch.tanh(h + x[i] * (i % 2) + x[i] * (3 * (i % 3) - i))
        outs.append(h)
    return torch.stack(outs)


@pytest.mark.parametrize("model", [chunk_mask, windows, up_to_the_sixth, by_steps_down, by_turns])
def test_numbers_that_rise_in_some_rounds_only(model):
    program = hx.export(model, torch.randn(20, 4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 3, 5, 7, 12, 20, 31):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def twice_as_slowly_from_the_tenth(x):
    return torch.stack([x[i] * (i // 2 if i < 20 else 10 + (i - 20) // 4) for i in range(len(x))])


@pytest.mark.parametrize(
    "model", [twice_as_slowly_from_the_tenth, functools.partial(chunk_mask, chunk=9)]
)
def test_what_the_first_rounds_do_not_show_of_such_numbers_is_asked_in_the_graph(model):
    program = hx.export(model, torch.randn(12, 4), dynamic={"x": {0: "n"}}, input_names=["x"])
    for n in (1, 2, 9, 10, 19, 20, 21, 25, 100):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)
