"""Fourier transforms from spectra to signals: sums of waves, as products with matrices of them.

A spectrum is a pair here, its real and its imaginary part; None stands for nothing but zeros.
"""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted, moved, one_axis


def _waves(op, rows, columns, period):
    """Cosines and sines of 2 pi k t / period."""
    turns = op.Mul(op.Unsqueeze(counted(op, rows), [1]), counted(op, columns))
    angles = op.cast(op.Mod(turns, op.constant(period)), torch.float64)
    angles = op.Mul(angles, op.Div(2 * math.pi, op.constant(period, torch.float64)))
    return op.Cos(angles), op.Sin(angles)


def _fitted(op, x, axis, size):
    """x with `size` elements along an axis: cut off, or filled up with zeros."""
    if x is None or op.same(x.shape[axis], size):
        return x
    x = op.Slice(x, [0], op.sizes([size]), [axis])
    more = [0] * (2 * x.rank)
    more[x.rank + axis] = size - x.shape[axis]
    return op.Pad(x, op.sizes(more))


def _product(op, x, waves):
    return None if x is None else op.MatMul(x, waves)


def _sum(op, x, y, sign):
    if x is None or y is None:
        return x if y is None else y if sign > 0 else op.Neg(y)
    return op.Add(x, y) if sign > 0 else op.Sub(x, y)


def transformed(op, real, imaginary, axis, size, inverse):
    """All of a spectrum along an axis, not scaled."""
    rank = real.rank
    pair = (_fitted(op, x, axis, size) for x in (real, imaginary))
    real, imaginary = (None if x is None else moved(op, x, axis, rank - 1) for x in pair)
    cos, sin = _waves(op, size, size, size)
    sign = 1 if inverse else -1  # of the imaginary unit in the exponent
    new_real = _sum(op, _product(op, real, cos), _product(op, imaginary, sin), -sign)
    along = _product(op, real, sin)
    across = _product(op, imaginary, cos)
    new_imaginary = _sum(op, across, along, sign)
    return tuple(moved(op, x, rank - 1, axis) for x in (new_real, new_imaginary))


def to_signal(op, real, imaginary, axis, size, inverse):
    """Real numbers from one half of a spectrum whose other half mirrors it, not scaled."""
    rank = real.rank
    half = size // 2 + 1
    pair = (_fitted(op, x, axis, half) for x in (real, imaginary))
    real, imaginary = (None if x is None else moved(op, x, axis, rank - 1) for x in pair)
    places = counted(op, half)
    once = op.Or(op.Equal(places, 0), op.Equal(op.Mul(places, 2), op.constant(size)))
    cos, sin = _waves(op, half, size, size)
    weight = op.Unsqueeze(op.cast(op.Where(once, 1, 2), torch.float64), [1])
    cos, sin = op.Mul(cos, weight), op.Mul(sin, weight)
    y = _sum(op, _product(op, real, cos), _product(op, imaginary, sin), -1 if inverse else 1)
    return moved(op, y, rank - 1, axis)


def _scaled(op, x, sizes, inverse, norm):
    """By the number of elements: in one direction, in the other, or half in each."""
    count = 1
    for n in sizes:
        count = n * count
    count = op.constant(count, x.dtype)
    if norm == "ortho":
        return op.Div(x, op.Sqrt(count))
    return op.Div(x, count) if inverse == (norm in (None, "backward")) else x


def _signal(op, input, sizes, axes, norm, inverse):
    """The last axis comes back real, and all others are transformed before."""
    axes = [one_axis(a, input.rank) for a in axes]
    if sizes is None:
        sizes = [input.shape[a] for a in axes]
        sizes[-1] = 2 * (sizes[-1] - 1)
    sizes = [input.shape[a] if n == -1 else n for a, n in zip(axes, sizes)]
    real, imaginary = op.cast(input, torch.float64), None
    for axis, size in zip(axes[:-1], sizes[:-1]):
        real, imaginary = transformed(op, real, imaginary, axis, size, inverse)
    y = to_signal(op, real, imaginary, axes[-1], sizes[-1], inverse)
    return op.cast(_scaled(op, y, sizes, inverse, norm), op.result.dtype)


def _one(inverse):
    def convert(op, input, n=None, dim=-1, norm=None):
        return _signal(op, input, None if n is None else [n], [dim], norm, inverse)

    return convert


def _several(inverse, axes):
    def convert(op, input, s=None, dim=axes, norm=None):
        s, dim = ([v] if isinstance(v, int) else v for v in (s, dim))
        if dim is None:
            dim = range(input.rank) if s is None else range(-len(s), 0)
        return _signal(op, input, s, dim, norm, inverse)

    return convert


def _named(name, inverse):
    one, many = [case("float32[n,5]"), case("float32[n,5]", 7, 0, "ortho")], [case("float32[n,5]")]
    return [
        converter(f"torch.fft.{name}", cases=one)(_one(inverse)),
        converter(f"torch.fft.{name}2", cases=many)(_several(inverse, (-2, -1))),
        converter(f"torch.fft.{name}n", cases=many)(_several(inverse, None)),
    ]


CONVERTERS = [*_named("irfft", True), *_named("hfft", False)]
