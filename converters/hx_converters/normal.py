"""The error function, the normal distribution, and their inverses."""

from __future__ import annotations

import math

from hx.lazy import torch

from ._series import fitted, functions


def _scaled_tail(t):
    x = 3 * (1 + t) / (1 - t)
    return torch.special.erfcx(x) * (x + 3)


def erfcx(op, x):
    """Compute erfc(x) * exp(x ** 2)."""
    size = op.Abs(x)
    past = op.Add(size, 3)
    right = op.Div(fitted(op, op.Div(op.Sub(size, 3), past), _scaled_tail, -1, 1), past)
    right = op.Where(op.IsInf(x), 0, right)
    left = op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2), right)
    return op.Where(op.Less(x, 0), left, right)


def _log1p(op, y):
    """Compute log(1 + y) with full precision."""
    whole = op.Add(y, 1)
    return op.Where(op.Equal(whole, 1), y, op.Mul(op.Log(whole), op.Div(y, op.Sub(whole, 1))))


def log_ndtr(op, x):
    """Compute the logarithm of the normal distribution function."""
    y = op.Mul(x, -math.sqrt(0.5))
    half = op.Mul(erfcx(op, y), 0.5)
    gauss = op.Mul(y, y)
    left = op.Sub(op.Log(half), gauss)
    beyond = op.Mul(erfcx(op, op.Neg(y)), op.Mul(op.Exp(op.Neg(gauss)), 0.5))
    return op.Where(op.Less(x, 1), left, _log1p(op, op.Neg(beyond)))


def _share(w):
    """Compute the inverse error function at x, divided by x, from w = -log(1 - x ** 2)."""
    root = torch.sqrt(-torch.expm1(-w))
    return -torch.special.ndtri(torch.exp(-w) / 2 / (1 + root)) / root / math.sqrt(2)


def _far_share(t):
    root = 6 * (1 + t) / (1 - t)
    return _share(root * root) / root


def _inverse_share(op, w):
    near = fitted(op, w, _share, 0, 6)
    root = op.Sqrt(w)
    far = fitted(op, op.Div(op.Sub(root, 6), op.Add(root, 6)), _far_share, -0.4203, 0.63)
    return op.Where(op.Less(w, 6), near, op.Mul(far, root))


def erfinv(op, x):
    w = op.Neg(op.Log(op.Mul(op.Sub(1, x), op.Add(x, 1))))
    y = op.Mul(x, _inverse_share(op, w))
    return op.Where(op.Equal(op.Abs(x), 1), op.Mul(x, math.inf), y)


def ndtri(op, p):
    """Compute the inverse of the normal distribution function."""
    w = op.Neg(op.Log(op.Mul(op.Mul(p, op.Sub(1, p)), 4)))
    w = op.Where(op.Less(w, 0), 0, w)
    y = op.Mul(op.Mul(op.Sub(op.Mul(p, 2), 1), math.sqrt(2)), _inverse_share(op, w))
    return op.Where(op.Equal(p, 0), -math.inf, op.Where(op.Equal(p, 1), math.inf, y))


def entropy(op, x):
    y = op.Neg(op.Mul(x, op.Log(x)))
    return op.Where(op.Equal(x, 0), 0, op.Where(op.Less(x, 0), -math.inf, y))


CONVERTERS = functions({
    ("erfinv", "special.erfinv"): erfinv,
    ("special.erfcx",): erfcx,
    ("special.log_ndtr",): log_ndtr,
    ("special.ndtri",): ndtri,
    ("special.entr",): entropy,
})  # fmt: skip
