"""Short-time Fourier transforms: windows times waves, as a convolution, and back."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from .fourier import waves
from .windows import unfold


def _window(op, window, win_length, n_fft, dtype):
    """The window in the middle of as many places as are transformed."""
    before = (n_fft - win_length) // 2
    known = torch.ones(win_length) if window is None else op.contents(window)
    room = [before, n_fft - win_length - before]
    if known is not None:
        return op.constant(torch.nn.functional.pad(known.to(dtype), room))
    return op.Pad(op.cast(window, dtype), room) if any(room) else op.cast(window, dtype)


def _hann():
    return torch.hann_window(16)


@converter("torch.ops.aten.stft", cases=[
    case("float32[n,t=60]", 16, 4, 16, "float32[16]", return_complex=True),
    case("float32[n,t=60]", 16, 5, 12, "float32[12]", True, False, True),
    case("float64[n,t=60]", 16, 5, window=_hann, normalized=True, return_complex=False),
])  # fmt: skip
def stft(op, input, n_fft, hop_length=None, win_length=None, window=None, normalized=False,
         onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    if align_to_window:
        return NotImplemented
    kind = input.dtype
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    count = n_fft // 2 + 1 if onesided in (None, True) else n_fft
    cos, sin = waves(op, count, n_fft, n_fft, kind)
    kernel = op.Concat(cos, op.Neg(sin), axis=0)
    kernel = op.Mul(kernel, _window(op, window, length, n_fft, kind))
    kernel = op.Mul(kernel, n_fft**-0.5) if normalized else kernel
    signal = input if input.rank == 2 else op.Unsqueeze(input, [0])
    if kind == torch.float32:
        y = op.Conv(op.Unsqueeze(signal, [1]), op.Unsqueeze(kernel, [1]), strides=[hop])
    else:  # onnxruntime convolves no float64
        frames = unfold(op, signal, 1, n_fft, hop)
        y = op.Transpose(op.MatMul(frames, op.Transpose(kernel, perm=[1, 0])), perm=[0, 2, 1])
    y = y if input.rank == 2 else op.Squeeze(y, [0])
    parts = op.Split(y, [count, count], axis=-2, outputs=2)
    z = op.complex(*parts)
    return z if op.result.dtype.is_complex else op.pair(z)


@converter("torch.istft", complex=True, cases=[
    case("complex64[n,9,t=7]", 16, 4, 16, "float32[16]", center=False),
    case("complex64[n,9,t=7]", 16, 4, window=_hann),
    case("complex64[9,t=7]", 16, 4, window=_hann, normalized=True, length=20),
    case("complex64[n,16,t=7]", 16, 4, window=_hann, onesided=False),
])  # fmt: skip
def istft(op, input, n_fft, hop_length=None, win_length=None, window=None, center=True,
          normalized=False, onesided=None, length=None, return_complex=False):  # fmt: skip
    """Windows laid over each other, divided by what the squares of the window add up to."""
    bins = n_fft // 2 + 1  # where there are more, the rest mirrors these
    real, imaginary = (
        x if onesided in (None, True) else op.Slice(x, [0], [bins], [-2])
        for x in op.parts(input, whole=True)
    )  # fmt: skip
    kind = real.dtype
    if return_complex or kind != torch.float32:
        return NotImplemented
    hop, width = hop_length or n_fft // 4, win_length or n_fft

    def weight(rows):
        k = torch.arange(rows)
        return torch.where((k == 0) | (2 * k == n_fft), 1.0, 2.0).double() / n_fft

    cos, sin = waves(op, bins, n_fft, n_fft, kind, weight)
    shape = _window(op, window, width, n_fft, kind)
    kernel = op.Mul(op.Concat(cos, op.Neg(sin), axis=0), shape)
    kernel = op.Mul(kernel, n_fft**0.5) if normalized else kernel
    x = op.Concat(real, imaginary, axis=-2)
    x = x if input.rank == 3 else op.Unsqueeze(x, [0])
    signal = op.ConvTranspose(x, op.Unsqueeze(kernel, [1]), strides=[hop])
    ones = op.Expand(op.constant(1.0), op.sizes([1, 1, input.shape[-1]]))
    squares = op.Unsqueeze(op.Mul(shape, shape), [0, 1])
    y = op.Squeeze(op.Div(signal, op.ConvTranspose(ones, squares, strides=[hop])), [1])
    total = (input.shape[-1] - 1) * hop + n_fft
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    if length is not None and not op.at_most(end, total):
        y = op.Pad(y, op.sizes([0, 0, 0, length]))
    y = op.Slice(y, [start], op.sizes([end]), [1])
    return y if input.rank == 3 else op.Squeeze(y, [0])
