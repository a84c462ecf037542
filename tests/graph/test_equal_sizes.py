"""Sizes that a model compares: where the answer says so, they are known to be equal."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import hx


class Pyramid(nn.Module):
    """Refines a flow from a coarse level on, and pads it where the level has an odd size."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(5, 2, 3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        whole = math.ceil(height / 4.0) * 4, math.ceil(width / 4.0) * 4
        levels = [F.interpolate(x, size=whole, mode="bilinear")]
        for _ in range(2):
            levels.insert(0, F.avg_pool2d(levels[0], 2))
        coarse = [math.floor(n / 2.0) for n in levels[0].shape[2:]]
        flow = x.new_zeros(x.shape[0], 2, *coarse)
        for level in levels:
            up = F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=True)
            if up.shape[2] != level.shape[2]:
                up = F.pad(up, [0, 0, 0, 1], mode="replicate")
            if up.shape[3] != level.shape[3]:
                up = F.pad(up, [0, 1, 0, 0], mode="replicate")
            assert up.shape[2:] == level.shape[2:]
            flow = self.conv(torch.cat([level, up], 1)) + up
        return F.interpolate(flow, size=(height, width), mode="bilinear")


class Stretched(nn.Module):
    """Compares two lengths, and adds what is of one length or of length 1."""

    def forward(self, x, y):
        if x.shape[1] != y.shape[1]:
            assert y.shape[1] == 1
        both = x + y
        return both.reshape(-1, both.shape[1], 1)


def test_padding_of_odd_levels_is_in_the_graph():
    model = Pyramid().eval()
    sizes = {0: "b", 2: "h", 3: "w"}
    program = hx.export(model, torch.rand(1, 3, 16, 16), dynamic={"x": sizes})
    for height, width in ((16, 16), (9, 16), (16, 11), (10, 19), (23, 31), (40, 5)):
        x = torch.rand(2, 3, height, width)
        assert_close(program.run(x), model(x), atol=1e-5, rtol=1e-4)


def test_broadcast_behind_a_comparison_stays_right():
    args = torch.rand(2, 6), torch.rand(2, 6)
    dynamic = {"x": {1: "n"}, "y": {1: "m"}}
    program = hx.export(Stretched(), args, dynamic=dynamic)
    for n, m in ((6, 6), (4, 4), (5, 1), (1, 1)):
        x, y = torch.rand(2, n), torch.rand(2, m)
        assert_close(program.run(x, y), Stretched()(x, y))
