"""Polynomials for functions without an ONNX operator.

`fitted` approximates a function given in float64 by a Chebyshev sum with as many terms as the
dtype of the result needs. A formula first divides out the parts that are not smooth (a power, a
logarithm, an exponential); one or two dozen terms suffice for the rest.
"""

from __future__ import annotations

import functools
import math

from hx import case, converter
from hx.lazy import torch

SAMPLES = 64


def polynomial(op, x, coefficients):
    """Evaluate a polynomial by Horner's rule; its coefficients start at the highest power."""
    total = op.constant(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        total = op.Add(op.Mul(total, x), op.constant(c, x.dtype))
    return total


@functools.cache
def coefficients(function, low, high, digits):
    """Return the non-negligible Chebyshev coefficients between two numbers, constant first."""
    steps = torch.arange(SAMPLES, dtype=torch.float64)
    angles = (steps + 0.5) * (math.pi / SAMPLES)
    samples = function((low + high) / 2 + (high - low) / 2 * angles.cos())
    found = (samples * (steps[:, None] * angles).cos()).sum(1) * (2 / SAMPLES)
    found[0] /= 2
    large = (found.abs() > digits * found.abs().max()).nonzero()
    return found[: int(large.max()) + 1].tolist()


def fitted(op, x, function, low, high):
    """Approximate function(x) for float64 x from `low` to `high`; other x give anything."""
    digits = 1e-14 if op.result.dtype == torch.float64 else 1e-10
    terms = coefficients(function, float(low), float(high), digits)
    scale, shift = 4 / (high - low), -2 * (high + low) / (high - low)
    twice = op.Add(op.Mul(x, scale), shift)
    before, now = op.constant(0.0, x.dtype), op.constant(terms[-1], x.dtype)
    for c in terms[-2:0:-1]:  # Clenshaw's sum
        before, now = now, op.Add(op.Sub(op.Mul(twice, now), before), op.constant(c, x.dtype))
    half = op.Mul(twice, 0.5)
    return op.Add(op.Sub(op.Mul(half, now), before), op.constant(terms[0], x.dtype))


def in_doubles(formula):
    """Make a converter of one number compute in float64, from the dtype of the result."""

    def convert(op, input):
        dtype = op.result.dtype
        return op.cast(formula(op, op.cast(op.cast(input, dtype), torch.float64)), dtype)

    convert.__module__ = formula.__module__  # the module under which it is listed
    return convert


def functions(table):
    """Register converters of one number: PyTorch's names, and the formula in float64."""
    cases = [case("float32[n,3]")]
    return [
        converter(*(f"torch.{n}" for n in names), cases=cases)(in_doubles(formula))
        for names, formula in table.items()
    ]
