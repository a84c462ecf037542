"""Images sampled at other places: also far outside, at infinite ones, and at 0 / 0."""

import pytest
import torch
from called import Plain
from torch import nn
from torch.nn.functional import affine_grid, grid_sample

import hx

NAN, INF = torch.nan, torch.inf
ODD = [NAN, INF, -INF, 0.3, 1.0, -1.7, 50.0, -333.3, 1e4, -1e4]
HUGE = [1e7, -1e9, 1e12, 1e19, -1e30]
MODES = [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "axes"), MODES)
def test_odd_places(mode, axes, padding, corners):
    # Reflected so often, no digit of PyTorch's places is left.
    values = torch.tensor(ODD if padding == "reflection" else ODD + HUGE)
    image = torch.randn(1, 2, *(6, 5, 7)[:axes])

    def model(image, grid):
        return grid_sample(image, grid, mode, padding, corners)

    usual = torch.rand(1, *[1] * (axes - 1), len(values), axes) * 2 - 1
    program = hx.export(model, (image, usual), None, dynamic={"image": {2: "h"}})
    for axis in range(axes):
        grid = usual.clone()
        grid[..., axis] = values
        got, want = program.run(image, grid), model(image, grid)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=2e-3, equal_nan=True)


def test_the_nearest_of_two_as_near_is_found_before_it_is_reflected():
    model = Plain(lambda x, g: grid_sample(x, g, "nearest", "reflection", False))
    grid = (torch.arange(-40, 40) / 4 + 1 / 8).reshape(1, 1, -1, 1).repeat(1, 1, 1, 2)
    program = hx.export(model, (torch.randn(1, 1, 8, 8), torch.rand(1, 3, 5, 2)), None,
                        dynamic={"g": {1: "h", 2: "w"}}, input_names=["x", "g"])  # fmt: skip
    x = torch.randn(1, 1, 8, 8)
    torch.testing.assert_close(program.run(x, grid), model(x, grid), rtol=0, atol=0)


class Projected(nn.Module):
    """Points in space, seen by a camera: some lie in its plane."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, features, points):
        places = points[..., :2] / points[..., 2:]
        return grid_sample(features, places, self.mode, "zeros", False)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_points_in_the_plane_of_a_camera(mode):
    model = Projected(mode)
    features, points = torch.randn(1, 3, 6, 6), torch.rand(1, 4, 5, 3) + 0.5
    program = hx.export(model, (features, points), None, dynamic={"points": {1: "n"}})
    points[0, 0, :, 2], points[0, 1, :, 2], points[0, 2, :3] = 0, -1e-30, 0
    torch.testing.assert_close(program.run(features, points), model(features, points),
                               rtol=1e-4, atol=1e-4, equal_nan=True)  # fmt: skip


class Warped(nn.Module):
    """An image moved by a flow of pixels, as optical flow does it."""

    def forward(self, x, flow):
        h, w = x.shape[-2:]
        y, z = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        places = torch.stack([z, y], -1) + flow.permute(0, 2, 3, 1)
        places = 2 * places / torch.tensor([w - 1, h - 1]) - 1
        return grid_sample(x, places, "bilinear", "border", True)


def test_a_flow_out_of_the_image():
    model = Warped()
    program = hx.export(model, (torch.randn(2, 3, 9, 8), torch.randn(2, 2, 9, 8)), None,
                        dynamic={"x": {2: "h>=2", 3: "w>=2"}, "flow": {2: "h>=2", 3: "w>=2"}})  # fmt: skip
    for size in [(4, 7), (30, 20)]:
        for scale in (1, 30, 1e12):
            x = torch.randn(2, 3, *size), torch.randn(2, 2, *size) * scale
            torch.testing.assert_close(program.run(*x), model(*x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_an_image_turned_and_made_smaller(padding):
    model = Plain(lambda x, a: grid_sample(x, affine_grid(a, x.size(), False), "bilinear", padding,
                                           False))  # fmt: skip
    turn = torch.tensor([[[0.8, -0.6, 0.1], [0.6, 0.8, -0.3]]])
    program = hx.export(model, (torch.randn(1, 3, 16, 16), turn), None, input_names=["x", "a"],
                        dynamic={"x": {2: "h", 3: "w"}})  # fmt: skip
    for scale in (1, 4, 30):
        x = torch.randn(1, 3, 13, 22), turn * scale
        torch.testing.assert_close(program.run(*x), model(*x), rtol=1e-3, atol=1e-3)
