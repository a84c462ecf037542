"""Fourier transforms: products with matrices of waves, or ONNX's DFT if they are long.

A spectrum is a pair here, its real and its imaginary part; None stands for a part of zeros.
"""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import along, counted, is_value, moved, one_axis
from .shape import roll

EXACT = 12  # up to this length, sums use float64, which costs little
WRITTEN_OUT = 1024  # up to this length the waves are stored, which takes 8 MiB for the longest
SHORT = 2048  # above, DFT is faster than a product, and the matrix would take too much room


def _angles(op, rows, columns, period):
    """Return k t and 2 pi k t / period, without whole turns."""
    turns = op.Mul(op.Unsqueeze(counted(op, rows), [1]), counted(op, columns))
    turns = op.Mod(turns, op.constant(period))
    full = op.Div(2 * math.pi, op.constant(period, torch.float64))
    return turns, op.Mul(op.cast(turns, torch.float64), full)


def waves(op, rows, columns, period, dtype, weight=None):
    """Return cosines and sines of 2 pi k t / period; each row may have a weight.

    Sines of half turns are exactly 0, so that bins without an imaginary part have none."""
    if all(type(n) is int for n in (rows, columns)) and period <= WRITTEN_OUT:
        k = torch.arange(rows)[:, None] * torch.arange(columns) % period
        angles = k.double() * (2 * math.pi / period)
        found = [angles.cos(), torch.where(2 * k % period == 0, 0.0, angles.sin())]
        found = found if weight is None else [weight(rows)[:, None] * w for w in found]
        return [op.constant(w.to(dtype)) for w in found]
    turns, angles = _angles(op, rows, columns, period)
    halves = op.Equal(op.Mod(op.Mul(turns, 2), op.constant(period)), 0)
    found = [op.Cos(angles), op.Where(halves, 0, op.Sin(angles))]
    if weight is not None:
        each = weight(rows) if is_value(weight(rows)) else op.constant(weight(rows))
        found = [op.Mul(w, op.Unsqueeze(each, [1])) for w in found]
    return [op.cast(w, dtype) for w in found]


def _fitted(op, x, axis, size):
    """Cut x to `size` elements along an axis, or pad it with zeros."""
    if x is None or op.same(x.shape[axis], size):
        return x
    x = op.Slice(x, [0], op.sizes([size]), [axis])
    more = [0] * (2 * x.rank)
    more[x.rank + axis] = size - x.shape[axis]
    return op.Pad(x, op.sizes(more))


def _product(op, x, matrix, axis):
    """Multiply each vector along an axis by a matrix."""
    if x is None:
        return None
    if axis == x.rank - 2:
        return op.MatMul(op.Transpose(matrix, perm=[1, 0]), x)
    return moved(op, op.MatMul(moved(op, x, axis, x.rank - 1), matrix), x.rank - 1, axis)


def _sum(op, x, y, sign):
    if y is None:
        return x
    if x is None:
        # Not Neg: a sum of 0 must be 0.0, not -0.0, because an angle depends on its sign.
        below = op.Sub(0, y)
        return op.Neg(below) if sign > 0 else below
    return op.Add(x, y) if sign > 0 else op.Sub(x, y)


def _by_length(op, size, short, long):
    """Choose the code for short or for long transforms, at run time if the length is not fixed."""
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
    """Transform by ONNX's DFT in float64.

    In float32 it has only three correct digits for lengths that are no powers of two. Its inverse
    has only the digits of float32, so an inverse is computed as a mirrored forward transform."""
    parts = [real] if imaginary is None else [real, op.Neg(imaginary) if inverse else imaginary]
    parts = [op.Unsqueeze(op.cast(x, torch.float64), [-1]) for x in parts]
    x = op.Concat(*parts, axis=-1) if imaginary is not None else parts[0]
    y = op.DFT(x, None, op.constant(axis), onesided=int(onesided))
    shape = list(real.shape)
    shape[axis] = size // 2 + 1 if onesided else size
    y.sized([*shape, 2])
    found = [op.Gather(y, i, axis=-1) for i in (0, 1)]
    x, y = (op.cast(part, real.dtype) for part in found)
    if imaginary is None:
        y = _without_ends(op, y, axis, size)
    return x, op.Neg(y) if inverse else y


def _without_ends(op, y, axis, size):
    """Return imaginary parts of the spectrum of real numbers: the first and the middle one are 0."""
    turns = op.Mod(op.Mul(counted(op, y.shape[axis]), 2), op.constant(size))
    return op.Where(along(op, op.Equal(turns, 0), axis, y.rank), 0, y)


def transformed(op, real, imaginary, axis, size, inverse, half=False):
    """Return the unscaled spectrum along an axis; for real numbers, optionally its first half."""
    real, imaginary = (_fitted(op, x, axis, size) for x in (real, imaginary))
    sign = 1 if inverse else -1  # of the imaginary unit in the exponent

    def short():
        columns = size // 2 + 1 if half else size
        cos, sin = waves(op, size, columns, size, real.dtype)
        new_real = _sum(
            op, _product(op, real, cos, axis), _product(op, imaginary, sin, axis), -sign
        )
        turned, kept = _product(op, real, sin, axis), _product(op, imaginary, cos, axis)
        return new_real, _sum(op, kept, turned, sign)

    return _by_length(
        op, size, short, lambda: _by_dft(op, real, imaginary, axis, size, inverse, half)
    )


def to_signal(op, real, imaginary, axis, size, inverse):
    """Return unscaled real numbers from one half of a spectrum whose other half mirrors it."""
    half = size // 2 + 1
    real, imaginary = (_fitted(op, x, axis, half) for x in (real, imaginary))

    def twice(rows):
        """Double all but the ends, which stand for their mirror images, too."""
        if type(rows) is int:
            k = torch.arange(rows)
            return torch.where((k == 0) | (2 * k == size), 1.0, 2.0).double()
        k = counted(op, rows)
        once = op.Or(op.Equal(k, 0), op.Equal(op.Mul(k, 2), op.constant(size)))
        return op.cast(op.Where(once, 1, 2), torch.float64)

    def short():
        cos, sin = waves(op, half, size, size, real.dtype, twice)
        kept, turned = _product(op, real, cos, axis), _product(op, imaginary, sin, axis)
        return (_sum(op, kept, turned, -1 if inverse else 1),)

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
    """Divide by the number of elements (or its root, for "ortho") if `norm` asks for it here."""
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
    """Return the parts of the input. Short transforms use float64, which costs next to nothing."""
    short = all(type(n) is int and n <= EXACT for n in sizes)
    kind = torch.float64 if short else _real_dtype(op.result.dtype)
    parts = op.parts(input) if input.dtype.is_complex else (input, None)
    return [None if x is None else op.cast(x, kind) for x in parts]


def _whole(op, input, sizes, axes, norm, inverse, half=False):
    """Complete a spectrum; with `half`, that of real numbers, whose last axis mirrors itself."""
    real, imaginary = _parts(op, input, sizes)
    for axis, size in reversed(list(zip(axes, sizes))):
        real, imaginary = transformed(op, real, imaginary, axis, size, inverse, half)
        half = False
    parts = [_scaled(op, x, sizes, inverse, norm) for x in (real, imaginary)]
    return op.complex(*(op.cast(x, _real_dtype(op.result.dtype)) for x in parts))


def _half(op, input, sizes, axes, norm, inverse):
    return _whole(op, input, sizes, axes, norm, inverse, True)


def _signal(op, input, sizes, axes, norm, inverse):
    """Transform all axes but the last, then the last one back to real numbers."""
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
    """Convert a basic operator; normalization is 0 (none), 1 (root of the count) or 2 (count)."""
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
