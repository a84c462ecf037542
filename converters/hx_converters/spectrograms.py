"""Short-time Fourier transforms: windows times waves, as a convolution, and back."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from .fourier import waves
from .padding import pad
from .windows import unfold


def _window(op, window, win_length, n_fft, dtype):
    """Pad the window on both sides to the length of the transform."""
    before = (n_fft - win_length) // 2
    known = torch.ones(win_length) if window is None else op.contents(window)
    room = [before, n_fft - win_length - before]
    if known is not None:
        return op.constant(torch.nn.functional.pad(known.to(dtype), room))
    return op.Pad(op.cast(window, dtype), room) if any(room) else op.cast(window, dtype)


def _hann():
    return torch.hann_window(16)


def _kernel(op, cos, sin, window, scale):
    """Return windowed waves, those of the imaginary part below those of the real part."""
    known = [op.contents(x) for x in (cos, sin, window)]
    if all(x is not None for x in known):
        cos, sin, window = known
        return op.constant(torch.cat([cos, sin]) * window * scale)
    kernel = op.Mul(op.Concat(cos, sin, axis=0), window)
    return kernel if scale == 1 else op.Mul(kernel, scale)


def _windowed(op, signal, kernel, hop):
    """Return the real and imaginary parts of every window of a real signal."""
    rows, width = kernel.shape
    if signal.dtype == torch.float32:
        y = op.Conv(op.Unsqueeze(signal, [1]), op.Unsqueeze(kernel, [1]), strides=[hop])
    else:  # onnxruntime's Conv lacks float64
        frames = unfold(op, signal, 1, width, hop)
        y = op.Transpose(op.MatMul(frames, op.Transpose(kernel, perm=[1, 0])), perm=[0, 2, 1])
    real, turned = op.Split(y, [rows // 2, rows // 2], axis=1, outputs=2)
    return real, op.Sub(0, turned)  # not Neg: a part that is 0 must be 0.0, not -0.0


_FROM_CENTER = ("center", "pad_mode", "normalized", "onesided", "return_complex", "align_to_window")


def _of_aten(op, input, n_fft, hop_length=None, win_length=None, window=None, *more, **options):
    """Convert either overload; with `center`, the signal is padded first."""
    padded = "center" in options or any(isinstance(x, str) for x in more)
    options |= zip(_FROM_CENTER[0 if padded else 2 :], more)
    center, mode = options.pop("center", padded), options.pop("pad_mode", "reflect")
    signals = op.parts(input) if input.dtype.is_complex else (input, None)
    if center:
        sides = [n_fft // 2] * 2
        signals = [None if x is None else pad(op, x, sides, mode) for x in signals]
    return _stft(op, *signals, n_fft, hop_length, win_length, window, **options)


def _stft(op, real, imaginary, n_fft, hop_length, win_length, window, normalized=False,
          onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    if align_to_window or (window is not None and window.dtype.is_complex):
        return NotImplemented
    whole = imaginary is not None if onesided is None else not onesided
    count = n_fft if whole else n_fft // 2 + 1
    shape = _window(op, window, win_length or n_fft, n_fft, real.dtype)
    cos, sin = waves(op, count, n_fft, n_fft, real.dtype)
    kernel = _kernel(op, cos, sin, shape, n_fft**-0.5 if normalized else 1)

    def transformed(x):
        x = x if x.rank == 2 else op.Unsqueeze(x, [0])
        y = _windowed(op, x, kernel, hop_length or n_fft // 4)
        return [v if real.rank == 2 else op.Squeeze(v, [0]) for v in y]

    x, y = transformed(real)
    if imaginary is not None:
        u, v = transformed(imaginary)
        x, y = op.Sub(x, v), op.Add(y, u)
    z = op.complex(x, y)
    return z if op.result.dtype.is_complex else op.pair(z)


CONVERTERS = [
    converter("torch.ops.aten.stft", cases=[
        case("float32[n,t=60]", 16, 4, 16, "float32[16]", return_complex=True),
        case("float32[n,t=60]", 16, 5, 12, "float32[12]", True, False, True),
        case("float64[n,t=60]", 16, 5, window=_hann, normalized=True, return_complex=False),
        case("float32[n,t=60]", 16, 4, 16, _hann, True, "reflect", return_complex=True),
        case("float32[n,t=60]", 16, 4, window=_hann, center=True, pad_mode="constant", return_complex=True),
    ])(_of_aten),
    converter("torch.ops.aten.stft", complex=True, cases=[
        case("complex64[n,t=60]", 16, 5, window=_hann, onesided=False, return_complex=True),
    ])(_of_aten),
]  # fmt: skip


@converter("torch.istft", complex=True, cases=[
    case("complex64[n,9,t=7]", 16, 4, 16, "float32[16]", center=False),
    case("complex64[n,9,t=7]", 16, 4, window=_hann),
    case("complex64[9,t=7]", 16, 4, window=_hann, normalized=True, length=20),
    case("complex64[n,16,t=7]", 16, 4, window=_hann, onesided=False),
    case("complex128[n,9,t=7]", 16, 4, 16, "float64[16]", center=False),
])  # fmt: skip
def istft(op, input, n_fft, hop_length=None, win_length=None, window=None, center=True,
          normalized=False, onesided=None, length=None, return_complex=False):  # fmt: skip
    """Add overlapping windows and divide by the sum of their squared weights."""
    bins = n_fft // 2 + 1  # any further bins mirror these
    real, imaginary = op.parts(input, whole=True)
    if not op.same(input.shape[-2], bins):
        real, imaginary = (op.Slice(x, [0], [bins], [-2]) for x in (real, imaginary))
    kind = real.dtype
    if return_complex or (window is not None and window.dtype.is_complex):
        return NotImplemented
    hop, width = hop_length or n_fft // 4, win_length or n_fft

    def weight(rows):
        k = torch.arange(rows)
        return torch.where((k == 0) | (2 * k == n_fft), 1.0, 2.0).double() / n_fft

    cos, sin = waves(op, bins, n_fft, n_fft, kind, weight)
    shape = _window(op, window, width, n_fft, kind)
    kernel = _kernel(op, cos, sin, shape, n_fft**0.5 if normalized else 1)
    x = op.Concat(real, op.Neg(imaginary), axis=-2)
    x = x if input.rank == 3 else op.Unsqueeze(x, [0])
    signal = op.ConvTranspose(x, op.Unsqueeze(kernel, [1]), strides=[hop])
    ones = op.Expand(op.constant(1.0, kind), op.sizes([1, 1, input.shape[-1]]))
    squares = op.Unsqueeze(op.Mul(shape, shape), [0, 1])
    y = op.Squeeze(op.Div(signal, op.ConvTranspose(ones, squares, strides=[hop])), [1])
    total = (input.shape[-1] - 1) * hop + n_fft
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    if length is not None and not op.at_most(end, total):
        y = op.Pad(y, op.sizes([0, 0, 0, length]))
    y = op.Slice(y, [start], op.sizes([end]), [1])
    return y if input.rank == 3 else op.Squeeze(y, [0])
