"""Functions that no name in the model's code leads to are met when it runs, and recorded once more."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

BY_LENGTH = {"x": {1: "n"}}


def half(x):
    return x[:, : int(x.shape[1] * 0.5)]


def scaled(x):
    return x * (1.5 * x.shape[1]) + torch.Tensor([x.shape[1]])


def summed(x):
    state, states = x[:, 0] * 0, []
    for i in range(x.shape[1]):
        state = state * 0.5 + x[:, i] * int(x.shape[1] * 0.5)
        states.append(state)
    return torch.stack(states, 1)


def thirds(n):
    return n // 3 + 0.5 * n


def by(x, number):
    return x * number(x.shape[1])


class Box:
    """What holds functions, and is called itself."""

    def __init__(self, *held):
        self.held = held

    def __call__(self, x):
        first, *rest = self.held
        return first(x, *rest)


class Calling(nn.Module):
    def __init__(self, box):
        super().__init__()
        self.box = {"one": [box]}

    def forward(self, x):
        return self.box["one"][0](x)


class ByName(nn.Module):
    def forward(self, x):
        return getattr(self, "with_" + "half")(x)

    def with_half(self, x):
        return half(x)


@functools.lru_cache
def kept(n):
    return int(n * 0.5)


class Kept(nn.Module):
    def forward(self, x):
        return x[:, : kept(x.shape[1])]


TABLE = {"half": half}


class FromTable(nn.Module):
    def forward(self, x):
        return TABLE["half"](x)


class FromAnywhere(nn.Module):
    def forward(self, x):
        return globals()["ha" + "lf"](x)


@pytest.mark.parametrize(
    "model",
    [
        Calling(Box(half)),
        Calling(Box(Box(Box(scaled)))),
        Calling(Box(summed)),
        Calling(Box(by, thirds)),
        ByName(),
        Kept(),
        FromTable(),
        FromAnywhere(),
    ],
    ids=["held", "deep", "loop", "no call of torch", "getattr", "cached", "table", "globals"],
)
def test_sizes_are_kept_in_functions_that_no_name_leads_to(model, proved):
    program = proved(model, torch.randn(2, 10, 3), BY_LENGTH, [{"n": 4}, {"n": 33}])
    assert all(escape.carried for escape in program.report.escapes)
