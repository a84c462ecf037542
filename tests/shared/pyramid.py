"""A model that refines a flow over a pyramid of sizes, and pads where a size is odd."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


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
