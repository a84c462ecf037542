"""NaN, infinities and the signs of zeros, as PyTorch treats them; masks that hide everything."""

import math

import pytest
import torch
from torch import nn

import hx

NAN, INF = math.nan, math.inf
SPECIAL = torch.tensor([1.0, -2.0, 0.0, -0.0, INF, -INF, NAN])
PAIRS = torch.cartesian_prod(SPECIAL, SPECIAL)


@pytest.mark.parametrize("function", [torch.atan2, torch.hypot])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_special_numbers_in_pairs(function, dtype):
    def forward(x, y):
        return function(x, y)

    one, other = torch.rand(2, 49).to(dtype)
    program = hx.export(forward, (one, other), verify=False)
    x, y = PAIRS.to(dtype).unbind(1)
    torch.testing.assert_close(program.run(x, y), forward(x, y), equal_nan=True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_argument_of_infinite_numbers(dtype):
    points = torch.complex(*PAIRS.unbind(1)).to(getattr(torch, dtype))
    program = hx.export(lambda z: z.angle(), torch.rand(49).to(points.dtype), verify=False)
    torch.testing.assert_close(program.run(points), points.angle(), equal_nan=True)


@pytest.mark.parametrize("reduce", ["amax", "amin", "sum", "mean", "prod"])
@pytest.mark.parametrize("include_self", [True, False])
def test_nan_that_is_scattered(reduce, include_self):
    index = torch.tensor([[0, 1, 1, 2], [2, 2, 0, 1], [1, 0, 2, 2]])

    def scattered(x, source):
        return x.scatter_reduce(1, index, source, reduce, include_self=include_self)

    known, place = torch.randn(3, 4), torch.randn(3, 4)
    program = hx.export(scattered, (known, place), verify=False)
    holes = torch.tensor([[1.0, NAN, -2, 0], [NAN, NAN, NAN, NAN], [3, 1, NAN, -INF]])
    for x, source in ((holes, place), (known, holes), (holes, holes.flip(1)), (known, place)):
        found = program.run(x, source)
        torch.testing.assert_close(found, scattered(x, source), equal_nan=True)


SPECTRA = {
    "fft": torch.fft.fft,
    "rfft": torch.fft.rfft,
    "ifft": torch.fft.ifft,
    "ihfft": torch.fft.ihfft,
    "rfft2": torch.fft.rfft2,
    "conjugate": lambda x: torch.fft.rfft(x).conj(),
    "windows": lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True),
    "all bins": lambda x: torch.stft(x, 8, 2, window=torch.ones(8), center=False,
                                     onesided=False, return_complex=True),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("length", [8, 15, 2100])
def test_the_angle_of_a_bin_without_an_imaginary_part(name, length):
    """The first and the middle bin: an angle of pi must not become -pi."""
    forward = SPECTRA[name]

    def angles(x):
        return torch.angle(forward(x))

    program = hx.export(angles, torch.randn(4, length), verify=False)
    x = torch.rand(4, length) * torch.tensor([[1.0], [-1], [3], [-3]])
    found, expected = program.run(x), angles(x)
    turn = (found - expected).abs() > 6
    assert not turn.any()
    real = forward(x).imag == 0
    assert real.any()
    torch.testing.assert_close(found[real], expected[real])


def test_the_angle_of_a_spectrum_of_any_length():
    def angles(x):
        return torch.angle(torch.fft.rfft(x))

    program = hx.export(angles, torch.randn(2, 12), dynamic={"x": {1: "t"}}, verify=False)
    for length in (6, 13, 64, 3000):
        x = -torch.rand(2, length)
        found, expected = program.run(x), angles(x)
        assert found[:, 0].equal(expected[:, 0]) and found[:, 0].gt(0).all()
        assert length % 2 or found[:, -1].equal(expected[:, -1])


@pytest.mark.parametrize("mode", ["reflect", "constant"])
def test_windows_that_are_centered_by_the_operator(mode):
    window, stft = torch.hann_window(8), torch.ops.aten.stft

    def forward(x):
        return torch.view_as_real(stft.center(x, 8, 4, 8, window, True, mode, False, True, True))

    program = hx.export(forward, torch.randn(2, 32), dynamic={"x": {1: "t"}})
    x = torch.randn(2, 57)
    torch.testing.assert_close(program.run(x), forward(x), atol=1e-5, rtol=1e-5)


HIDDEN = torch.tensor([[True] * 5, [False] * 4 + [True]])
ROWS = torch.zeros(5, 5, dtype=torch.bool).index_fill(0, torch.tensor([2]), True)


class Attends(nn.Module):
    def __init__(self, alike=True, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.alike, self.options = alike, options

    def forward(self, x, padding, mask):
        key = x if self.alike else x + 1
        found = self.attention(x, key, key, padding, attn_mask=mask, **self.options)
        return tuple(y for y in found if y is not None)


class Layers(nn.Module):
    def __init__(self, first, nested=False):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=first)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        self.nested = nested

    def forward(self, x, padding, mask):
        return self.layers(x, None if self.nested else mask, padding)


MODELS = {
    "weights": lambda: Attends(),
    "no weights": lambda: Attends(need_weights=False),
    "other keys": lambda: Attends(alike=False, need_weights=False),
    "layers": lambda: Layers(False),
    "layers, norm first": lambda: Layers(True),
    "padding left out": lambda: Layers(False, nested=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_attention_from_which_all_keys_are_hidden(name):
    model = MODELS[name]().eval()
    x = torch.randn(2, 5, 8)
    seen = torch.zeros_like(HIDDEN), torch.zeros_like(ROWS)
    program = hx.export(model, (x, *seen))
    for padding, mask in ((HIDDEN, seen[1]), (seen[0], ROWS), (HIDDEN, ROWS), seen):
        with torch.no_grad():
            expected = model(x, padding, mask)
        found = program.run(x, padding, mask)
        torch.testing.assert_close(found, expected, equal_nan=True, atol=1e-5, rtol=1e-5)
