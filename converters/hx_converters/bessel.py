"""Bessel and Airy functions: power series near 0, polynomials far from 0."""

from __future__ import annotations

import math

from hx.lazy import torch

from ._series import fitted, functions, polynomial

PI = math.pi
NEAR = 8.0
_EULER = 0.5772156649015329


def _power_series(order, sign, terms, weighted=False):
    """Return coefficients in (x / 2) ** 2, the highest power first: sign ** k / (k! (k + order)!).

    If weighted, each is multiplied by psi(k + 1) + psi(k + order + 1).
    """
    found = []
    for k in range(terms):
        harmonic = sum(1 / j for j in range(1, k + 1)) + sum(1 / j for j in range(1, k + order + 1))
        weight = harmonic - 2 * _EULER if weighted else 1.0
        found.append(weight * sign**k / (math.factorial(k) * math.factorial(k + order)))
    return found[::-1]


def _first_kind(op, x, order, sign, terms):
    half = op.Mul(x, 0.5)
    y = polynomial(op, op.Mul(half, half), _power_series(order, sign, terms))
    return op.Mul(y, half) if order else y


def _second_kind(op, x, order, sign, terms):
    """Return the series to add to 2 log(x / 2) times the function of the first kind."""
    half = op.Mul(x, 0.5)
    y = polynomial(op, op.Mul(half, half), _power_series(order, sign, terms, weighted=True))
    return op.Add(op.Div(-sign, half), op.Mul(y, half)) if order else y


def _phase(order, quadrature):
    """Return a function of NEAR / x: Hankel's integral, the slow factor of the waves far from 0."""

    def function(t):
        v = torch.arange(0.05, 7, 0.1, dtype=torch.float64)
        x = (NEAR / t)[:, None]
        whole = v ** (2 * order) * torch.exp(-v * v) * (1 + 0.5j * v * v / x) ** (order - 0.5)
        total = whole.sum(1) * (0.2 / math.gamma(order + 0.5))
        return total.imag / t if quadrature else total.real

    return function


_PHASES = {(order, q): _phase(order, q) for order in (0, 1) for q in (False, True)}


def _wave(op, x, order, second):
    x = _at_least(op, x, NEAR)
    t = op.Div(NEAR, x)
    angle = op.Sub(x, (2 * order + 1) * PI / 4)
    cos, sin = op.Cos(angle), op.Sin(angle)
    along = fitted(op, t, _PHASES[order, False], 0, 1)
    across = op.Mul(fitted(op, t, _PHASES[order, True], 0, 1), t)
    y = (op.Add(op.Mul(along, sin), op.Mul(across, cos)) if second
         else op.Sub(op.Mul(along, cos), op.Mul(across, sin)))  # fmt: skip
    return op.Mul(y, op.Sqrt(op.Div(2 / PI, x)))


def _at_least(op, x, least):
    return op.Where(op.Less(x, least), least, x)


def _bessel_j(order):
    def formula(op, x):
        size = op.Abs(x)
        far = _wave(op, size, order, False)
        far = op.Mul(far, op.Sign(x)) if order else far
        return op.Where(op.Less(size, NEAR), _first_kind(op, x, order, -1, 32), far)

    return formula


def _bessel_y(order):
    def formula(op, x):
        log = op.Mul(op.Log(op.Mul(x, 0.5)), op.Mul(_first_kind(op, x, order, -1, 32), 2))
        near = op.Mul(op.Sub(log, _second_kind(op, x, order, -1, 32)), 1 / PI)
        y = op.Where(op.Less(x, NEAR), near, _wave(op, x, order, True))
        return op.Where(op.Equal(x, 0), -math.inf, op.Where(op.Less(x, 0), math.nan, y))

    return formula


def _far_i(order):
    return lambda t: getattr(torch.special, f"i{order}e")(NEAR / t) * (NEAR / t).sqrt()


def _far_k(order):
    scaled = f"scaled_modified_bessel_k{order}"
    return lambda t: getattr(torch.special, scaled)(2 / t) * (2 / t).sqrt()


_FAR_I = [_far_i(order) for order in (0, 1)]
_FAR_K = [_far_k(order) for order in (0, 1)]


def _bessel_i(order, scaled):
    def formula(op, x):
        size = op.Abs(x)
        near = _first_kind(op, size, order, 1, 32)
        near = op.Mul(near, op.Exp(op.Neg(size))) if scaled else near
        safe = _at_least(op, size, NEAR)
        far = op.Div(fitted(op, op.Div(NEAR, safe), _FAR_I[order], 0, 1), op.Sqrt(safe))
        far = far if scaled else op.Mul(far, op.Exp(size))
        y = op.Where(op.Less(size, NEAR), near, far)
        return op.Mul(y, op.Sign(x)) if order else y

    return formula


def _bessel_k(order, scaled):
    sign = -1 if order else 1

    def formula(op, x):
        log = op.Mul(op.Log(op.Mul(x, 0.5)), op.Mul(_first_kind(op, x, order, 1, 16), 2))
        near = op.Mul(op.Sub(_second_kind(op, x, order, 1, 16), log), 0.5 * sign)
        near = op.Mul(near, op.Exp(x)) if scaled else near
        safe = _at_least(op, x, 2.0)
        far = op.Div(fitted(op, op.Div(2, safe), _FAR_K[order], 0, 1), op.Sqrt(safe))
        far = far if scaled else op.Mul(far, op.Exp(op.Neg(x)))
        y = op.Where(op.LessOrEqual(x, 2), near, far)
        return op.Where(op.Equal(x, 0), math.inf, op.Where(op.Less(x, 0), math.nan, y))

    return formula


def spherical_j0(op, x):
    small = op.Less(op.Abs(x), 1e-4)
    near = op.Sub(1, op.Div(op.Mul(x, x), 6))
    y = op.Where(small, near, op.Div(op.Sin(x), op.Where(small, 1, x)))
    return op.Where(op.IsInf(x), 0, y)


def _airy_terms(count):
    """Return the coefficients of the series in 1 / zeta of Airy's function far from 0."""
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return found


def _airy_near(x):
    """Compute Airy's integral along a line where it decays fast."""
    v = torch.arange(-8, 8, 0.05, dtype=torch.float64) + 1j
    return torch.exp(1j * (v**3 / 3 + x[:, None] * v)).sum(1).real * (0.05 / (2 * PI))


def _airy_far(t):
    """Return Airy's integral far to the right without its power and its exponential factor.

    The argument is 2 / x ** 1.5.
    """
    v = torch.arange(-7, 7, 0.05, dtype=torch.float64)
    wave = torch.cos(v**3 / 3 * (t[:, None] / 2).sqrt())
    return (torch.exp(-v * v) * wave).sum(1) * (0.05 / (2 * PI))


def airy(op, x):
    middle = fitted(op, x, _airy_near, -7, 2)
    size = _at_least(op, op.Abs(x), 2.0)
    root = op.Sqrt(size)
    power = op.Mul(root, size)
    angle = op.Mul(power, 2 / 3)
    right = op.Mul(fitted(op, op.Div(2, power), _airy_far, 0, 0.7072), op.Exp(op.Neg(angle)))
    terms = [c * (-1) ** (k // 2) / math.sqrt(PI) for k, c in enumerate(_airy_terms(20))]
    inverse = op.Reciprocal(angle)
    square = op.Mul(inverse, inverse)
    turned = op.Add(angle, PI / 4)
    along = polynomial(op, square, terms[::2][::-1])
    across = op.Mul(polynomial(op, square, terms[1::2][::-1]), inverse)
    left = op.Sub(op.Mul(along, op.Sin(turned)), op.Mul(across, op.Cos(turned)))
    y = op.Div(op.Where(op.Less(x, 0), left, right), op.Sqrt(root))
    inside = op.And(op.Greater(x, -7.0), op.Less(x, 2.0))
    return op.Where(op.IsInf(x), math.nan, op.Where(inside, middle, y))


CONVERTERS = functions({
    ("special.bessel_j0",): _bessel_j(0),
    ("special.bessel_j1",): _bessel_j(1),
    ("special.bessel_y0",): _bessel_y(0),
    ("special.bessel_y1",): _bessel_y(1),
    ("i0", "special.i0", "special.modified_bessel_i0"): _bessel_i(0, False),
    ("special.i0e",): _bessel_i(0, True),
    ("special.i1", "special.modified_bessel_i1"): _bessel_i(1, False),
    ("special.i1e",): _bessel_i(1, True),
    ("special.modified_bessel_k0",): _bessel_k(0, False),
    ("special.modified_bessel_k1",): _bessel_k(1, False),
    ("special.scaled_modified_bessel_k0",): _bessel_k(0, True),
    ("special.scaled_modified_bessel_k1",): _bessel_k(1, True),
    ("special.spherical_bessel_j0",): spherical_j0,
    ("special.airy_ai",): airy,
})  # fmt: skip
