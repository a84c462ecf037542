"""Zero and one are sizes like others."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx


def test_a_batch_of_none(proved):
    def f(x):
        y = F.relu(x @ torch.ones(4, 3)) + x.shape[0]
        z = torch.cat([y, y[:, :1]], 1).view(x.shape[0], 2, 2)
        w = y.clone()
        w[:, 0] = 5
        parts = x.reshape(x.shape[0], 4), x.unflatten(1, (2, -1)), x.flatten(1)
        return y, z, x.sum(0), w, *parts, x.transpose(0, 1), y.softmax(-1)

    program = proved(f, torch.randn(2, 4), dynamic={"x": {0: "b"}}, sizes=[{"b": 0}, {"b": 7}])
    assert not program.report.escapes


def test_recorded_with_a_batch_of_none(proved):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    proved(model, torch.zeros(0, 4), dynamic={"input": {0: "b"}}, sizes=[{"b": 3}])


@pytest.mark.parametrize("recorded, other", [(1, 5), (5, 1)])
def test_one_is_a_size_like_others(proved, recorded, other):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.LayerNorm(4)
            self.scale = nn.Parameter(torch.randn(4, 1, 1))

        def forward(self, x):
            y = F.max_pool2d(self.conv(x) * self.scale, 2)
            y = y + y.mean((2, 3), keepdim=True) + y.flatten(1).sum(1)[:, None, None, None]
            y = self.norm(y.permute(0, 2, 3, 1))
            return F.adaptive_avg_pool2d(y.permute(0, 3, 1, 2), 1).flatten(1), y

    program = proved(
        Model(), torch.randn(recorded, 3, 8, 6), dynamic={"x": {0: "b", 2: "h", 3: "w"}},
        sizes=[{"b": other}, {"b": other, "h": 2, "w": 11}],
    )  # fmt: skip
    assert not program.report.escapes


MEETING = [((3, 4, 1), (1, 2, 5)), ((1, 4, 5), (3, 2, 1)), ((2, 4, 5), (2, 2, 5))]


@pytest.mark.parametrize("shapes", MEETING)
def test_sizes_of_which_either_may_be_1_meet_beside_the_axis_that_is_taken_along(shapes):
    def model(x, y):
        return torch.take_along_dim(x, y, 1), torch.take_along_dim(y, x % 1, -2)

    given = [torch.arange(math.prod(shape)).reshape(shape) % 2 for shape in shapes]
    axes = {"x": {0: "a", 2: "c"}, "y": {0: "b", 2: "d"}}
    program = hx.export(model, tuple(given), dynamic=axes, verify=False)
    for others in MEETING:
        x, y = (torch.randint(0, 2, shape) for shape in others)
        for found, real in zip(program.run(x, y), model(x, y), strict=True):
            assert torch.equal(found, real)


def test_powers_of_ten_have_whole_logarithms():
    def model(x):
        return x * int(math.log10(x.shape[1])), x * math.log10(x.shape[1])

    program = hx.export(model, torch.randn(2, 8), dynamic={"x": {1: "n"}})
    for n in (1, 9, 10, 99, 100, 101, 999, 1000, 1001, 10000):
        x = torch.ones(2, n)
        for got, expected in zip(program.run(x), model(x)):
            torch.testing.assert_close(got, expected)
