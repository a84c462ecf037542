"""Orthogonal polynomials, each computed from the two before it."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import loop


def _chebyshev(first, shifted=False):
    """Compute Chebyshev polynomials of any kind: 2 x times the last one, minus the one before."""

    def of(op, x):
        x = op.Sub(op.Mul(x, 2), 1) if shifted else x
        scale, shift = first
        start = op.Add(op.Mul(x, scale), shift)
        twice = op.Mul(x, 2)
        return start, lambda k, now, before: op.Sub(op.Mul(twice, now), before)

    return of


def _hermite(scale):
    def of(op, x):
        x = op.Mul(x, scale)
        return x, lambda k, now, before: op.Sub(op.Mul(x, now), op.Mul(op.Mul(before, k), scale))

    return of


def _laguerre(op, x):
    start = op.Sub(1, x)
    return start, lambda k, now, before: op.Div(
        op.Sub(op.Mul(op.Add(start, op.Mul(k, 2)), now), op.Mul(k, before)), op.Add(k, 1)
    )


def _legendre(op, x):
    return x, lambda k, now, before: op.Div(
        op.Sub(op.Mul(op.Mul(op.Add(op.Mul(k, 2), 1), x), now), op.Mul(k, before)), op.Add(k, 1)
    )


def _converter(of, highest=None):
    def convert(op, input, n):
        dtype = op.result.dtype
        x, n = (op.cast(op.cast(v, dtype), torch.float64) for v in (input, n))
        degree = op.cast(n, torch.int64)
        one = op.Add(op.Mul(op.Add(x, n), 0), 1)
        first, step = of(op, op.Mul(x, one))

        def following(k, before, now, found):
            found = op.Where(op.Equal(degree, op.Add(k, 1)), now, found)
            degrees = op.cast(op.Add(k, 1), torch.float64)
            return now, step(degrees, now, before), found

        largest = op.Concat(op.Reshape(degree, [-1]), [0], axis=0)
        start = [one, first, op.Where(op.Less(degree, 0), 0, one)]
        y = loop(op, op.ReduceMax(largest, keepdims=0), start, following)[2]
        if highest is not None:  # PyTorch stops at numbers out of range
            limit = highest if dtype == torch.float64 else highest // 4
            y = op.Where(op.Greater(degree, limit), math.nan, y)
        return op.cast(y, dtype)

    return convert


# A Chebyshev polynomial of the first degree is a line: its slope and its height.
POLYNOMIALS = {
    "chebyshev_polynomial_t": _converter(_chebyshev((1, 0))),
    "chebyshev_polynomial_u": _converter(_chebyshev((2, 0))),
    "chebyshev_polynomial_v": _converter(_chebyshev((2, -1))),
    "chebyshev_polynomial_w": _converter(_chebyshev((2, 1))),
    "shifted_chebyshev_polynomial_t": _converter(_chebyshev((1, 0), shifted=True)),
    "shifted_chebyshev_polynomial_u": _converter(_chebyshev((2, 0), shifted=True)),
    "shifted_chebyshev_polynomial_v": _converter(_chebyshev((2, -1), shifted=True)),
    "shifted_chebyshev_polynomial_w": _converter(_chebyshev((2, 1), shifted=True)),
    "hermite_polynomial_h": _converter(_hermite(2), 512),
    "hermite_polynomial_he": _converter(_hermite(1), 512),
    "laguerre_polynomial_l": _converter(_laguerre),
    "legendre_polynomial_p": _converter(_legendre),
}

CONVERTERS = [
    converter(f"torch.special.{name}",
              cases=[case("float32[n,3]", "int64[n,3]<8"), case("float32[n,3]", 5)])(convert)
    for name, convert in POLYNOMIALS.items()
]  # fmt: skip
