"""Images at other sizes: every factor, and sizes at which PyTorch does not do what the factor says."""

import math

import pytest
import torch
from called import Single
from torch import nn
from torch.nn.functional import interpolate

import hx

BOTH = {"x": {2: "h", 3: "w"}}
SMALL = [(2, 3), (4, 2), (5, 7), (9, 4), (12, 13)]
# Of some, floor(n * f) is n, or twice that, for small n; of others, a step in float32 is no
# whole number where it should be.
FACTORS = [1.025, 1.1, 8 / 7, 1.3, 1.45, 1.5, 2.1, 2.3, 3.0, 0.5, 0.7]
MODES = ["bilinear", "bicubic", "nearest", "nearest-exact"]


def holds(program, model, *inputs):
    for x in inputs:
        got, want = program.run(x), model(x)
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", FACTORS)
def test_a_factor_at_every_size(factor, mode):
    model = Single(lambda x: interpolate(x, scale_factor=factor, mode=mode))
    program = hx.export(model, torch.randn(1, 2, 9, 11), None, dynamic=BOTH)
    holds(program, model, *(torch.randn(1, 2, *size) for size in SMALL))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(9, 11), (3, 4)])
def test_factors_at_one_size(size, mode):
    x = torch.randn(1, 2, *size)
    for factor in FACTORS:
        model = Single(lambda x, f=factor: interpolate(x, scale_factor=f, mode=mode))
        holds(hx.export(model, x, None), model, torch.randn_like(x))


@pytest.mark.parametrize("mode", MODES)
def test_a_factor_that_follows_from_a_size(mode):
    model = Single(lambda x: interpolate(x, scale_factor=16 / x.shape[3], mode=mode))
    program = hx.export(model, torch.randn(1, 2, 8, 10), None, dynamic=BOTH)
    assert not program.report.escapes
    holds(program, model, *(torch.randn(1, 2, *size) for size in [(5, 7), (8, 11), (6, 20)]))


@pytest.mark.parametrize("factor", [1.1, 8 / 7, 2.0])
def test_an_antialiased_axis_stays_where_its_size_does(factor):
    model = Single(lambda x: interpolate(x, scale_factor=factor, mode="bilinear", antialias=True))
    program = hx.export(model, torch.randn(1, 2, 9, 11), None, dynamic={"x": {2: "h", 3: "w>=2"}})
    holds(program, model, *(torch.randn(1, 2, *size) for size in SMALL))


class Positions(nn.Module):
    """A table of 4 x 4 positions for an image of any size, with a little more than is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 16, 8))
        self.patches = nn.Conv2d(3, 8, 4, 4)

    def forward(self, x):
        count = self.table.shape[1]
        side = int(math.sqrt(count))
        h, w = x.shape[2] // 4 + 0.1, x.shape[3] // 4 + 0.1
        table = self.table.reshape(1, side, side, 8).permute(0, 3, 1, 2)
        scale = h / math.sqrt(count), w / math.sqrt(count)
        table = interpolate(table, scale_factor=scale, mode="bicubic")
        return self.patches(x).flatten(2) + table.flatten(2)


def test_positions_for_an_image_of_any_size():
    model = Positions()
    program = hx.export(model, torch.randn(1, 3, 16, 20), None, dynamic=BOTH)
    with torch.no_grad():
        sizes = [(16, 16), (8, 40), (21, 30)]
        holds(program, model, *(torch.randn(1, 3, *size) for size in sizes))
