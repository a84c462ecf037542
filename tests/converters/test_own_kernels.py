"""As many groups as there are samples: filters that are made for each of them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx


class Styled(nn.Module):
    """Weights that each sample scales for itself, as generators of images do."""

    def __init__(self, kernel=3, up=False, **how):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, kernel, kernel))
        self.up, self.how = up, how

    def forward(self, x, style):
        n, width, height, length = x.shape
        weight = self.weight * style[:, None, :, None, None]
        x = x.reshape(1, n * width, height, length)
        if self.up:
            weight = weight.transpose(1, 2).reshape(n * 3, 4, *self.weight.shape[2:])
            y = F.conv_transpose2d(x, weight, groups=n, **self.how)
        else:
            y = F.conv2d(x, weight.flatten(0, 1), groups=n, **self.how)
        return y.view(n, 4, *y.shape[2:])


class Deltas(nn.Module):
    """One filter for every row of every sample."""

    def forward(self, x):
        n, width, length = x.shape
        taps = torch.tensor([-1.0, 0, 2]).repeat(n * width, 1, 1)
        y = F.conv1d(x.reshape(1, n * width, length), taps, torch.ones(n * width), padding=1,
                     groups=n * width)  # fmt: skip
        return y.view(n, width, -1)


@pytest.mark.parametrize(
    "model",
    [
        Styled(),
        Styled(kernel=1),
        Styled(padding="same"),
        Styled(stride=2, padding=1, dilation=2),
        Styled(up=True),
        Styled(up=True, stride=2, padding=1, output_padding=1),
        Styled(up=True, stride=3, padding=2, dilation=2),
        Styled(up=True, padding=3),
    ],
    ids=lambda model: f"up={model.up}, kernel={model.weight.shape[2]}, {model.how}",
)
def test_a_kernel_for_each_sample_at_any_number_of_samples(model):
    given = torch.randn(2, 3, 7, 6), torch.randn(2, 3)
    axes = {"x": {0: "n", 2: "h", 3: "w"}, "style": {0: "n"}}
    program = hx.export(model, given, None, dynamic=axes)
    assert not program.report.escapes
    for n, h, w in ((1, 9, 5), (4, 6, 8)):
        given = torch.randn(n, 3, h, w), torch.randn(n, 3)
        torch.testing.assert_close(program.run(*given), model(*given), rtol=1e-4, atol=1e-4)


def test_a_filter_for_each_row():
    program = hx.export(Deltas(), torch.randn(2, 3, 9), None, dynamic={"x": {0: "n", 2: "t"}})
    assert not program.report.escapes
    for n, t in ((1, 4), (5, 12)):
        x = torch.randn(n, 3, t)
        torch.testing.assert_close(program.run(x), Deltas()(x))


class Found(nn.Module):
    """A picture that is looked for in another, as trackers do."""

    def __init__(self, up=False, **how):
        super().__init__()
        self.up, self.how = up, how

    def forward(self, picture, x):
        n, width = picture.shape[:2]
        x = x.reshape(1, n * width, *x.shape[2:])
        kernels = picture.reshape(n * width, 1, *picture.shape[2:])
        convolve = F.conv_transpose2d if self.up else F.conv2d
        y = convolve(x, kernels, groups=n * width, **self.how)
        return y.reshape(n, width, *y.shape[2:])


@pytest.mark.parametrize(
    "model",
    [
        Found(),
        Found(padding=1, stride=2),
        Found(dilation=2),
        Found(padding="same"),
        Found(up=True, stride=2),
    ],
    ids=lambda model: f"up={model.up}, {model.how}",
)
def test_kernels_of_any_size_for_each_sample(model):
    given = torch.randn(2, 3, 3, 4), torch.randn(2, 3, 12, 11)
    axes = {"picture": {0: "n", 2: "a", 3: "b"}, "x": {0: "n", 2: "h", 3: "w"}}
    program = hx.export(model, given, None, dynamic=axes)
    assert not program.report.escapes
    for n, a, b, h, w in ((1, 2, 3, 9, 7), (4, 5, 2, 13, 16)):
        given = torch.randn(n, 3, a, b), torch.randn(n, 3, h, w)
        torch.testing.assert_close(program.run(*given), model(*given), rtol=1e-4, atol=1e-4)


def test_a_fixed_number_of_groups_stays_one_node():
    model, x = Styled(), torch.randn(2, 3, 7, 6)
    program = hx.export(model, (x, torch.randn(2, 3)), None)
    assert "Conv" in [node.op_type for node in program.model.graph]
