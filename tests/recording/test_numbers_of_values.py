"""Python's and NumPy's numbers that are made of what is in tensors: in the graph they are values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import hx

MODELS = {
    "list": lambda x: x * torch.tensor(x.mean(0).tolist()),
    "list of a length": lambda x: x + torch.tensor(x.mean(1).tolist())[:, None],
    "doubles": lambda x: x.double() * torch.tensor(x.double().mean(0).tolist(), dtype=torch.double),
    "sum of a list": lambda x: x * sum(x.mean(0).tolist()),
    "largest of a list": lambda x: x * max(x.mean(0).tolist()),
    "item of a list": lambda x: x * x.mean(0).tolist()[1],
    "round": lambda x: x * round(x.mean().item(), 2),
    "round of halves": lambda x: x * round((x.mean() * 64).round().div(64).item(), 3),
    "asarray": lambda x: x * torch.as_tensor(np.asarray(x.mean(0)) * 2),
    "clip": lambda x: torch.from_numpy(np.clip(x.numpy(), 0.2, 0.8)),
    "NumPy's round": lambda x: torch.from_numpy(np.round(x.numpy() * 9)),
    "quotient": lambda x: torch.from_numpy((x.numpy() - 0.5) / 3.0),
    "at least": lambda x: torch.from_numpy(np.maximum(np.abs(x.numpy() - 0.5), 0.1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_they_follow_the_values(name):
    model = MODELS[name]
    program = hx.export(model, torch.rand(4, 3), dynamic={"x": {0: "n"}})
    for n in (4, 1, 9):
        for _ in range(5):
            x = torch.rand(n, 3)
            assert_close(program.run(x), model(x))


def test_more_decimals_than_are_exact_leave_the_graph():
    with pytest.raises(hx.VerificationError, match="round"):
        hx.export(lambda x: x * round(x.mean().item(), 9), torch.rand(4, 3))


def test_a_size_is_rounded_to_decimals():
    program = hx.export(
        lambda x: x * round(x.shape[0] / 7, 2), torch.rand(4, 3), dynamic={"x": {0: "n"}}
    )
    for n in range(1, 40):
        x = torch.rand(n, 3)
        assert torch.equal(program.run(x), x * round(n / 7, 2))


def test_a_sum_of_many_numbers_of_a_list():
    """Each goes on from the one before: as deep as there are steps."""

    def model(x):
        total = 0.0
        for value in x.tolist() * 10:
            total = total + value * 0.5
        return x + total

    program = hx.export(model, torch.randn(64))
    x = torch.randn(64)
    torch.testing.assert_close(program.run(x), model(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("longest", [torch.max, lambda x: max(x), lambda x: -min(-x)])
def test_a_range_goes_round_as_often_as_a_tensor_says(longest):
    def masked(x, lengths):
        state = torch.zeros_like(x[:, 0])
        for t in range(longest(lengths)):
            state = torch.where((t < lengths)[:, None], state.tanh() + x[:, t], state)
        return state

    dynamic = {"x": {0: "b", 1: "n"}, "lengths": {0: "b"}}
    given = torch.randn(3, 7, 2), torch.tensor([4, 7, 2])
    program = hx.export(masked, given, dynamic=dynamic)
    for lengths in ([1], [3, 5, 4, 2], [19, 20]):
        x, lengths = torch.randn(len(lengths), 20, 2), torch.tensor(lengths)
        assert_close(program.run(x, lengths), masked(x, lengths))
