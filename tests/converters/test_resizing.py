"""Images at other sizes: every factor, and sizes at which PyTorch does not do what the factor says."""

import math

import pytest
import torch
from called import Plain, Single
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


def numbered(*size):
    return torch.arange(math.prod(size)).float().reshape(1, 1, *size)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_elements_for_the_size_of_another_map(mode):
    """Where a place should meet a whole number, rounding decides: as in PyTorch."""
    model = Plain(lambda x, f: interpolate(x, size=f.shape[-2:], mode=mode))
    program = hx.export(model, (torch.randn(1, 1, 16, 16), torch.randn(1, 3, 8, 8)), None,
                        input_names=["x", "f"],
                        dynamic={"x": {2: "h", 3: "w"}, "f": {2: "p", 3: "q"}})  # fmt: skip
    pairs = [(14, 16), (28, 8), (26, 22), (25, 60), (36, 10), (72, 20), (84, 50), (118, 25), (9, 1)]
    for n, m in pairs:
        x = numbered(n, 7), torch.zeros(1, 3, m, 5)
        assert torch.equal(program.run(*x), model(*x)), (n, m)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_elements_for_a_fixed_size_and_for_shares_of_a_size(mode):
    for how in (
        lambda h: {"size": (7, 3)},
        lambda h: {"size": (h // 3, 3)},
        lambda h: {"size": (2 * h - 1, 3)},
        lambda h: {"scale_factor": 1.7, "recompute_scale_factor": True},
    ):
        model = Single(lambda x, how=how: interpolate(x, **how(x.shape[2]), mode=mode))
        program = hx.export(model, torch.randn(1, 1, 18, 6), None, dynamic={"x": {2: "h>=3"}})
        for n in (14, 26, 39, 49, 50, 91, 98, 105, 118, 124):
            assert torch.equal(program.run(numbered(n, 6)), model(numbered(n, 6))), n


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_nearest_of_few_and_of_many_elements(axes, mode):
    for factor in (0.6, 1.3, 2.1, 3):
        model = Single(lambda x, f=factor: interpolate(x, scale_factor=f, mode=mode))
        program = hx.export(model, torch.randn(1, 1, *[30] * axes), None,
                            dynamic={"x": {2: "h>=4" if factor < 1 else "h"}})  # fmt: skip
        for n in (4, 5, 20, 30, 1000) if factor < 1 else (1, 2, 3, 4, 5, 20, 30, 1000):
            x = numbered(n, *[30] * (axes - 1))
            assert torch.equal(program.run(x), model(x)), (factor, n)


@pytest.mark.parametrize(
    "grown",
    [
        lambda x: interpolate(x, scale_factor=2),
        lambda x: interpolate(x, scale_factor=(3, 1.5)),
        lambda x: interpolate(x, (x.shape[2] * 2, x.shape[3] * 4)),
    ],
)
def test_a_whole_factor_is_one_node(grown):
    program = hx.export(Single(grown), torch.randn(1, 2, 8, 6), None, dynamic=BOTH)
    assert [n.op_type for n in program.model.graph].count("Resize") == 1
    assert "Gather" not in [n.op_type for n in program.model.graph]
    holds(program, Single(grown), torch.randn(1, 2, 4, 10), torch.randn(1, 2, 13, 2))


@pytest.mark.parametrize("mode", MODES)
def test_as_many_elements_as_pytorch_counts(mode):
    """30 * 2.1 is 63, and 62.99 in float32."""
    model = Single(lambda x: interpolate(x, scale_factor=2.1, mode=mode))
    for dynamic in (None, BOTH):
        program = hx.export(model, torch.randn(1, 2, 30, 10), None, dynamic=dynamic)
        holds(program, model, torch.randn(1, 2, 30, 10))


@pytest.mark.parametrize("dynamic", [BOTH, {"x": {2: "h"}}, {"x": {3: "w"}}], ids=str)
def test_whole_factors_are_those_of_small_images_alone(dynamic):
    """PyTorch takes 2 in place of 2.1 where 2 elements become 4, up to 128 rows and columns."""
    model = Single(lambda x: interpolate(x, scale_factor=2.1))
    program = hx.export(model, torch.randn(1, 2, 9, 2), None, dynamic=dynamic)
    for h, w in ((9, 2), (58, 2), (59, 2), (1000, 2), (9, 5), (9, 70)):
        if (h == 9 or 2 in dynamic["x"]) and (w == 2 or 3 in dynamic["x"]):
            x = torch.randn(1, 2, h, w)
            assert torch.equal(program.run(x), model(x)), (h, w)
