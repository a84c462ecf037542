"""Windows over whole axes, as global pooling is written by hand, and over shares of them."""

import pytest
import torch
from called import Single
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    conv1d,
    interpolate,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
)

import hx

WHOLE = {
    "mean": lambda x: avg_pool2d(x, x.size()[2:]),
    "maximum": lambda x: max_pool2d(x, (x.shape[2], x.shape[3]), stride=1),
    "strip": lambda x: avg_pool2d(x, (x.shape[2], 1)),
    "strip of another stride": lambda x: max_pool2d(x, (2, x.shape[3]), stride=(1, 5)),
    "made in forward": lambda x: nn.AvgPool2d(x.shape[2:])(x),
    "norm": lambda x: lp_pool2d(x, 2, x.shape[2:]),
    "without a batch": lambda x: avg_pool2d(x[0], x.shape[2:]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_window_that_covers_an_axis(name):
    model = Single(WHOLE[name])
    dynamic = {"x": {0: "b", 2: "h", 3: "w"}}
    program = hx.export(model, torch.rand(2, 3, 6, 5), None, dynamic=dynamic)
    assert not program.report.escapes
    for size in [(1, 3, 4, 9), (5, 3, 7, 2)]:
        x = torch.randn(size)
        torch.testing.assert_close(program.run(x), model(x), equal_nan=True)


@pytest.mark.parametrize("pool", [max_pool1d, avg_pool1d])
def test_over_what_a_convolution_gives(pool):
    def forward(x):
        y = conv1d(x, torch.ones(2, 3, 2))
        return pool(y, y.size(2)).squeeze(2)

    program = hx.export(forward, torch.randn(2, 3, 8), None, dynamic={"x": {2: "t>=2"}})
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(program.run(x), forward(x))


def pyramid(x):
    """A spatial pyramid: the number of windows is fixed, and their size and padding follow from it."""
    found = []
    for k in (1, 2, 3):
        size = [-(-n // k) for n in x.shape[2:]]
        pads = [(s * k - n + 1) // 2 for s, n in zip(size, x.shape[2:])]
        found.append(max_pool2d(x, size, stride=size, padding=pads).flatten(1))
    return torch.cat(found, 1)


def adaptive_by_hand(x):
    strides = [n // 3 for n in x.shape[2:]]
    return avg_pool2d(x, [n - 2 * s for n, s in zip(x.shape[2:], strides)], stride=strides)


SHARES = {
    "halves": lambda x: avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    "one axis": lambda x: max_pool2d(x, (x.shape[2] // 2, 2)),
    "overlapping": lambda x: max_pool2d(x, x.shape[2] // 2, stride=1, padding=1),
    "steps": lambda x: avg_pool2d(x, 2, stride=(x.shape[2] // 3, 2)),
    "dilated": lambda x: max_pool1d(x[:, 0], x.shape[3] // 3, stride=1, dilation=2),
    "padded mean": lambda x: avg_pool1d(x[:, 0], x.shape[3] // 2, padding=1),
    "without a batch": lambda x: avg_pool2d(x[0], (x.shape[2] // 2, 3)),
    "pyramid": pyramid,
    "adaptive by hand": adaptive_by_hand,
}


@pytest.mark.parametrize("how", SHARES)
def test_a_window_that_is_a_share_of_a_size(how):
    model = Single(SHARES[how])
    dynamic = {"x": {0: "b", 2: "h>=4", 3: "w>=4"}}
    program = hx.export(model, torch.rand(2, 3, 8, 9), dynamic=dynamic)
    for shape in [(1, 3, 4, 9), (5, 3, 7, 6), (2, 3, 17, 13)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program.run(x), model(x))


def test_a_window_that_follows_from_a_size_and_is_rounded_up_is_refused():
    with pytest.raises(hx.HxError, match="kernel_shape"):
        hx.export(
            lambda x: avg_pool2d(x, x.shape[3] // 2, ceil_mode=True),
            torch.randn(1, 1, 4, 4), None, dynamic={"x": {2: "h", 3: "w"}},
        )  # fmt: skip


@pytest.mark.parametrize("pool", [adaptive_avg_pool2d, adaptive_max_pool2d])
def test_windows_by_shares_of_a_size_that_may_be_none(pool):
    model = Single(lambda x: pool(x, (x.shape[2] // 2, x.shape[3] // 3 + 1)))
    program = hx.export(model, torch.randn(2, 3, 6, 7), None, dynamic={"x": {2: "h", 3: "w"}})
    assert not program.report.escapes
    for size in [(1, 1), (1, 5), (3, 1), (9, 13)]:
        x = torch.randn(2, 3, *size)
        torch.testing.assert_close(program.run(x), model(x))


def test_an_image_made_half_as_large_by_its_areas():
    model = Single(lambda x: interpolate(x, scale_factor=0.5, mode="area"))
    program = hx.export(model, torch.randn(1, 2, 6, 7), None, dynamic={"x": {2: "h", 3: "w"}})
    for size in [(2, 2), (3, 9), (10, 4)]:
        x = torch.randn(1, 2, *size)
        torch.testing.assert_close(program.run(x), model(x))


def odd(x):
    """Padding that makes sizes even, as multi-scale similarity has it."""
    return [n % 2 for n in x.shape[2:]]


PADDED = {
    "avg": lambda x: F.avg_pool2d(x, 2, padding=odd(x)),
    "avg, overlapping": lambda x: F.avg_pool2d(x, 3, stride=2, padding=(x.shape[2] % 2, 1)),
    "avg of what is there": lambda x: F.avg_pool2d(x, 2, padding=odd(x), count_include_pad=False),
    "avg without batch": lambda x: F.avg_pool2d(x[0], 2, padding=odd(x)),
    "max": lambda x: F.max_pool2d(-x.abs() - 1, 2, padding=odd(x)),
    "max of half": lambda x: F.max_pool2d(x.half(), 2, padding=odd(x)),
    "conv": lambda x: F.conv2d(x, KERNEL, padding=odd(x)),
    "conv in one dimension": lambda x: F.conv1d(x[..., 0], KERNEL[..., 0], padding=x.shape[3] % 2),
    "unfold": lambda x: F.unfold(x, 3, padding=x.shape[2] % 2),
}
KERNEL = torch.randn(4, 3, 3, 3)


@pytest.mark.parametrize("how", PADDED)
def test_padding_that_follows_from_a_size(how):
    model = PADDED[how]
    dynamic = {"x": {0: "b", 2: "h>=4", 3: "w>=4"}}
    program = hx.export(model, torch.randn(2, 3, 8, 10), dynamic=dynamic, strict=True)
    assert program.proof.ok and not program.report.promised
    for shape in ((1, 3, 9, 10), (3, 3, 9, 11), (2, 3, 8, 5), (2, 3, 4, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


ROUNDED_UP = {
    "max": lambda x, k, s, p: F.max_pool2d(x, k, s, p, ceil_mode=True),
    "places": lambda x, k, s, p: F.max_pool2d(x, k, s, p, ceil_mode=True, return_indices=True),
    "avg": lambda x, k, s, p: F.avg_pool2d(x, k, s, p, True),
    "avg of what is there": lambda x, k, s, p: F.avg_pool2d(x, k, s, p, True, False),
    "avg of float64": lambda x, k, s, p: F.avg_pool2d(x.double(), k, s, p, True),
    "sum": lambda x, k, s, p: F.avg_pool2d(x, k, s, p, True, divisor_override=3),
    "sum in three dimensions": lambda x, k, s, p: F.avg_pool3d(
        x[:, :, None], (1, k, k), (1, s, s), (0, p, p), True, divisor_override=3
    ),
}


@pytest.mark.parametrize("how", ROUNDED_UP)
@pytest.mark.parametrize(
    "kernel, stride, pad, size",
    [(3, 3, 1, (5, 6)), (2, 2, 1, (7, 9)), (4, 3, 2, (7, 8)), (2, 3, 0, (7, 6)), (2, 3, 1, (8, 9))],
)
def test_windows_rounded_up_on_one_axis_and_not_on_the_other(how, kernel, stride, pad, size):
    """One more window stands half outside of one axis, and would start in the padding of another."""

    def forward(x):
        return ROUNDED_UP[how](x, kernel, stride, pad)

    for shape in (size, size[::-1]):
        x = torch.randn(2, 3, *shape)
        assert hx.export(forward, x, None).proof.ok
    program = hx.export(forward, x, None, dynamic={"x": {2: "h>=4", 3: "w>=4"}})
    half = hx.export(forward, x, None, dynamic={"x": {3: "w>=4"}})
    for n in range(5, 11):
        for each, shape in ((program, (n, 15 - n)), (half, (size[1], n))):
            x = torch.randn(2, 3, *shape)
            torch.testing.assert_close(each.run(x), forward(x))
