"""Fourier transforms: sums of waves, as products with matrices of them; long ones by ONNX's DFT.

A spectrum is a pair here, its real and its imaginary part; None stands for nothing but zeros.
"""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted, is_value, moved, one_axis
from .shape import roll

EXACT = 12  # up to this length sums are taken in float64: of so few numbers it costs little
WRITTEN_OUT = 1024  # up to this length the waves are stored, which takes 8 MiB for the longest
SHORT = 2048  # above, DFT is faster than a product, and the matrix would take too much room


def _angles(op, rows, columns, period):
    """2 pi k t / period, with whole turns taken off."""
    turns = op.Mul(op.Unsqueeze(counted(op, rows), [1]), counted(op, columns))
    angles = op.cast(op.Mod(turns, op.constant(period)), torch.float64)
    return op.Mul(angles, op.Div(2 * math.pi, op.constant(period, torch.float64)))


def waves(op, rows, columns, period, dtype, weight=None):
    """Cosines and sines of 2 pi k t / period; each row may have a weight."""
    if all(type(n) is int for n in (rows, columns)) and period <= WRITTEN_OUT:
        k = torch.arange(rows)[:, None] * torch.arange(columns) % period
        angles = k.double() * (2 * math.pi / period)
        found = [angles.cos(), angles.sin()]
        found = found if weight is None else [weight(rows)[:, None] * w for w in found]
        return [op.constant(w.to(dtype)) for w in found]
    angles = _angles(op, rows, columns, period)
    found = [op.Cos(angles), op.Sin(angles)]
    if weight is not None:
        each = weight(rows) if is_value(weight(rows)) else op.constant(weight(rows))
        found = [op.Mul(w, op.Unsqueeze(each, [1])) for w in found]
    return [op.cast(w, dtype) for w in found]


def _fitted(op, x, axis, size):
    """x with `size` elements along an axis: cut off, or filled up with zeros."""
    if x is None or op.same(x.shape[axis], size):
        return x
    x = op.Slice(x, [0], op.sizes([size]), [axis])
    more = [0] * (2 * x.rank)
    more[x.rank + axis] = size - x.shape[axis]
    return op.Pad(x, op.sizes(more))


def _product(op, x, matrix, axis):
    """Each vector along an axis times a matrix."""
    if x is None:
        return None
    if axis == x.rank - 2:
        return op.MatMul(op.Transpose(matrix, perm=[1, 0]), x)
    return moved(op, op.MatMul(moved(op, x, axis, x.rank - 1), matrix), x.rank - 1, axis)


def _sum(op, x, y, sign):
    if x is None or y is None:
        # Not Neg: what adds up to nothing is 0.0, whose sign an angle goes by, and not -0.0.
        return x if y is None else y if sign > 0 else op.Sub(0, y)
    return op.Add(x, y) if sign > 0 else op.Sub(x, y)


def _by_length(op, size, short, long):
    """The way for short transforms or for long ones; at run time, where only that knows."""
    if type(size) is int or op.opset < 17:
        return (short if op.opset < 17 or size <= SHORT else long)()
    bodies = [op.body(lambda way=way: list(way())) for way in (short, long)]
    is_short = op.LessOrEqual(op.constant(size), SHORT)
    first = bodies[0].outputs
    found = op.If(is_short, then_branch=bodies[0], else_branch=bodies[1], outputs=len(first))
    for value, of in zip(found, first):
        value.sized(of.shape)
    return found


def _by_dft(op, real, imaginary, axis, size, inverse, onesided=False):
    """ONNX's own, in float64: in float32 it keeps but three digits of lengths that are no powers
    of two, and its inverse keeps those of float32 only. So that is one forwards, mirrored."""
    parts = [real] if imaginary is None else [real, op.Neg(imaginary) if inverse else imaginary]
    parts = [op.Unsqueeze(op.cast(x, torch.float64), [-1]) for x in parts]
    x = op.Concat(*parts, axis=-1) if imaginary is not None else parts[0]
    y = op.DFT(x, None, op.constant(axis), onesided=int(onesided))
    shape = list(real.shape)
    shape[axis] = size // 2 + 1 if onesided else size
    y.sized([*shape, 2])
    found = [op.Gather(y, i, axis=-1) for i in (0, 1)]
    found = [op.cast(x, real.dtype) for x in found]
    return found[0], op.Neg(found[1]) if inverse else found[1]


def transformed(op, real, imaginary, axis, size, inverse, half=False):
    """A spectrum along an axis, not scaled; of real numbers the first half may be all of it."""
    real, imaginary = (_fitted(op, x, axis, size) for x in (real, imaginary))
    sign = 1 if inverse else -1  # of the imaginary unit in the exponent

    def short():
        columns = size // 2 + 1 if half else size
        cos, sin = waves(op, size, columns, size, real.dtype)
        new_real = _sum(
            op, _product(op, real, cos, axis), _product(op, imaginary, sin, axis), -sign
        )
        along, across = _product(op, real, sin, axis), _product(op, imaginary, cos, axis)
        return new_real, _sum(op, across, along, sign)

    return _by_length(
        op, size, short, lambda: _by_dft(op, real, imaginary, axis, size, inverse, half)
    )


def to_signal(op, real, imaginary, axis, size, inverse):
    """Real numbers from one half of a spectrum whose other half mirrors it, not scaled."""
    half = size // 2 + 1
    real, imaginary = (_fitted(op, x, axis, half) for x in (real, imaginary))

    def twice(rows):
        """All but the ends stand for their mirror images, too."""
        if type(rows) is int:
            k = torch.arange(rows)
            return torch.where((k == 0) | (2 * k == size), 1.0, 2.0).double()
        k = counted(op, rows)
        once = op.Or(op.Equal(k, 0), op.Equal(op.Mul(k, 2), op.constant(size)))
        return op.cast(op.Where(once, 1, 2), torch.float64)

    def short():
        cos, sin = waves(op, half, size, size, real.dtype, twice)
        along, across = _product(op, real, cos, axis), _product(op, imaginary, sin, axis)
        return (_sum(op, along, across, -1 if inverse else 1),)

    def long():
        rest = op.sizes([size - half])
        mirrored = [
            None if x is None else op.Slice(x, rest, [0], [axis], [-1]) for x in (real, imaginary)
        ]
        whole = op.Concat(real, mirrored[0], axis=axis)
        other = None if imaginary is None else op.Concat(imaginary, op.Neg(mirrored[1]), axis=axis)
        for x in (whole, other):
            if x is not None:
                x.sized([*real.shape[:axis], size, *real.shape[axis + 1 :]])
        return (_by_dft(op, whole, other, axis, size, inverse)[0],)

    return _by_length(op, size, short, long)[0]


def _scaled(op, x, sizes, inverse, norm):
    """By the number of elements: in one direction, in the other, or half in each."""
    if (
        x is None
        or norm == ("forward" if inverse else "backward")
        or (norm is None and not inverse)
    ):
        return x
    count = 1
    for n in sizes:
        count = n * count
    count = op.constant(count, x.dtype)
    return op.Div(x, op.Sqrt(count) if norm == "ortho" else count)


def _real_dtype(dtype):
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _parts(op, input, sizes):
    """The parts of what is transformed. Short ones take float64, which costs next to nothing."""
    short = all(type(n) is int and n <= EXACT for n in sizes)
    kind = torch.float64 if short else _real_dtype(op.result.dtype)
    parts = op.parts(input) if input.dtype.is_complex else (input, None)
    return [None if x is None else op.cast(x, kind) for x in parts]


def _whole(op, input, sizes, axes, norm, inverse, half=False):
    """All of a spectrum; with `half`, that of real numbers, the last axis of which mirrors itself."""
    real, imaginary = _parts(op, input, sizes)
    for axis, size in reversed(list(zip(axes, sizes))):
        real, imaginary = transformed(op, real, imaginary, axis, size, inverse, half)
        half = False
    parts = [_scaled(op, x, sizes, inverse, norm) for x in (real, imaginary)]
    return op.complex(*(op.cast(x, _real_dtype(op.result.dtype)) for x in parts))


def _half(op, input, sizes, axes, norm, inverse):
    return _whole(op, input, sizes, axes, norm, inverse, True)


def _signal(op, input, sizes, axes, norm, inverse):
    """The last axis comes back real, and all others are transformed before."""
    real, imaginary = _parts(op, input, sizes)
    for axis, size in zip(axes[:-1], sizes[:-1]):
        real, imaginary = transformed(op, real, imaginary, axis, size, inverse)
    y = to_signal(op, real, imaginary, axes[-1], sizes[-1], inverse)
    return op.cast(_scaled(op, y, sizes, inverse, norm), op.result.dtype)


def _along(op, transform, input, sizes, axes, norm, inverse):
    axes = [one_axis(a, input.rank) for a in axes]
    if sizes is None:
        sizes = [input.shape[a] for a in axes]
        if transform is _signal:
            sizes[-1] = 2 * (sizes[-1] - 1)
    sizes = [input.shape[a] if type(n) is int and n == -1 else n for a, n in zip(axes, sizes)]
    if not axes:
        return op.cast(input, op.result.dtype)
    return transform(op, input, sizes, axes, norm, inverse)


def _one(transform, inverse):
    def convert(op, input, n=None, dim=-1, norm=None):
        return _along(op, transform, input, None if n is None else [n], [dim], norm, inverse)

    return convert


def _several(transform, inverse, axes):
    def convert(op, input, s=None, dim=axes, norm=None):
        s, dim = ([v] if isinstance(v, int) else v for v in (s, dim))
        if dim is None:
            dim = range(input.rank) if s is None else range(-len(s), 0)
        return _along(op, transform, input, s, dim, norm, inverse)

    return convert


def _named(name, transform, inverse, kinds=("float32", "complex64")):
    found = []
    for kind in kinds:
        x, deep = f"{kind}[n,5]", f"{kind}[n,3,h]"
        of = {"complex": kind == "complex64"}
        one = [case(x), case(x, 7, 0, "ortho"), case(deep, None, 1, "forward")]
        many = [case(x), case(deep, norm="ortho")]
        found += [
            converter(f"torch.fft.{name}", cases=one, **of)(_one(transform, inverse)),
            converter(f"torch.fft.{name}2", cases=many, **of)(
                _several(transform, inverse, (-2, -1))
            ),
            converter(f"torch.fft.{name}n", cases=many, **of)(_several(transform, inverse, None)),
        ]
    return found


CONVERTERS = [
    *_named("fft", _whole, False), *_named("ifft", _whole, True),
    *_named("rfft", _half, False, ["float32"]), *_named("ihfft", _half, True, ["float32"]),
    *_named("irfft", _signal, True), *_named("hfft", _signal, False),
]  # fmt: skip


def _unnamed(op, transform, input, sizes, axes, normalization, inverse):
    """What all of them come down to: not scaled, by the root of the number of elements, or by it."""
    ends = ("forward", "backward") if inverse else ("backward", "forward")
    norm = (ends[0], "ortho", ends[1])[normalization]
    return _along(op, transform, input, sizes, axes, norm, inverse)


@converter("torch.ops.aten._fft_r2c",
           cases=[case("float32[n,5]", [1], 0, True), case("float32[n,3,h]", [1, 2], 1, False)])  # fmt: skip
def fft_of_real(op, self, dim, normalization, onesided):
    return _unnamed(op, _half if onesided else _whole, self, None, dim, normalization, False)


@converter("torch.ops.aten._fft_c2c", complex=True,
           cases=[case("complex64[n,5]", [1], 0, False), case("complex64[n,3,h]", [1, 2], 2, True)])  # fmt: skip
def fft_of_complex(op, self, dim, normalization, forward):
    return _unnamed(op, _whole, self, None, dim, normalization, not forward)


@converter("torch.ops.aten._fft_c2r", complex=True,
           cases=[case("complex64[n,4]", [1], 2, 6), case("complex64[n,3,4]", [1, 2], 0, 7)])  # fmt: skip
def fft_to_real(op, self, dim, normalization, last_dim_size):
    sizes = [*(self.shape[a] for a in dim[:-1]), last_dim_size]
    return _unnamed(op, _signal, self, sizes, dim, normalization, True)


def _shifted(forth):
    def convert(op, input, dim=None):
        axes = range(input.rank) if dim is None else [dim] if isinstance(dim, int) else dim
        sizes = [input.shape[one_axis(a, input.rank)] for a in axes]
        return roll(op, input, [n // 2 if forth else (n + 1) // 2 for n in sizes], list(axes))

    return convert


CONVERTERS += [
    converter(f"torch.fft.{name}", complex=kind == "complex64",
              cases=[case(f"{kind}[n,5]"), case(f"{kind}[n,5]", 1)])(_shifted(forth))
    for name, forth in (("fftshift", True), ("ifftshift", False))
    for kind in ("float32", "complex64")
]  # fmt: skip
