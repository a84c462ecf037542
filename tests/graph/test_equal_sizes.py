"""Sizes that a model compares: where the answer says so, they are known to be equal."""

from __future__ import annotations

import torch
from tests.shared.pyramid import Pyramid
from torch import nn
from torch.testing import assert_close

import hx


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
