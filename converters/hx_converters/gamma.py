"""Gamma and related functions: a series far from 0, recurrences near 0, reflection below 0."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import loop
from ._series import functions, polynomial

ASYMPTOTIC_FROM = 10


def _far_out(op, x):
    """Return x if it is large, else x plus an integer, beyond FAR; and whether x was small."""
    near = op.Less(x, float(ASYMPTOTIC_FROM))
    return op.Where(near, op.Add(x, float(ASYMPTOTIC_FROM)), x), near


def _bernoulli(terms):
    """Return the Bernoulli numbers B2, B4, B6, ..."""
    found = [1.0]
    for m in range(1, 2 * terms + 1):
        found.append(-sum(math.comb(m + 1, k) * found[k] for k in range(m)) / (m + 1))
    return found[2::2]


_B = _bernoulli(8)


def _turn(op, x):
    """Return the signed distance from x to the nearest integer, times pi."""
    return op.Mul(op.Sub(x, op.Round(x)), math.pi)


def log_gamma(op, x):
    """Compute the logarithm of gamma by Stirling's series."""
    low = op.Less(x, 0.5)
    y = op.Where(low, op.Sub(1, x), x)
    z, near = _far_out(op, y)
    steps = op.constant(1.0, x.dtype)
    for k in range(ASYMPTOTIC_FROM):
        steps = op.Mul(steps, op.Add(op.Where(near, y, 1), k))
    inverse = op.Reciprocal(z)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_B, 1)]
    tail = op.Mul(polynomial(op, op.Mul(inverse, inverse), terms[::-1]), inverse)
    log = op.Sub(op.Mul(op.Sub(z, 0.5), op.Log(z)), z)
    log = op.Add(op.Add(log, tail), 0.5 * math.log(2 * math.pi))
    log = op.Sub(log, op.Where(near, op.Log(steps), 0))
    mirror = op.Sub(op.Sub(math.log(math.pi), op.Log(op.Abs(op.Sin(_turn(op, x))))), log)
    return op.Where(op.IsInf(x), math.inf, op.Where(low, mirror, log))


def digamma(op, x):
    low = op.Less(x, 0)
    y = op.Where(low, op.Sub(1, x), x)
    z, near = _far_out(op, y)
    steps = op.constant(0.0, x.dtype)
    for k in range(ASYMPTOTIC_FROM):
        steps = op.Add(steps, op.Reciprocal(op.Add(y, k)))
    inverse = op.Reciprocal(op.Mul(z, z))
    terms = [b / (2 * k) for k, b in enumerate(_B, 1)]
    tail = op.Mul(polynomial(op, inverse, terms[::-1]), inverse)
    far = op.Sub(op.Sub(op.Log(z), op.Div(0.5, z)), tail)
    y = op.Sub(far, op.Where(near, steps, 0))
    turn = _turn(op, x)
    mirror = op.Sub(y, op.Div(op.Mul(op.Cos(turn), math.pi), op.Sin(turn)))
    whole = op.Equal(x, op.Floor(x))
    y = op.Where(low, op.Where(whole, math.nan, mirror), y)
    return op.Where(op.Equal(x, 0), op.Neg(op.Reciprocal(x)), y)


def _hurwitz(op, s, q):
    """Sum (q + k) ** -s over all k, for q above 0, by the Euler-Maclaurin formula."""
    power = op.Neg(s)
    total = op.constant(0.0, q.dtype)
    for k in range(ASYMPTOTIC_FROM):
        total = op.Add(total, op.Pow(op.Add(q, k), power))
    z = op.Add(q, ASYMPTOTIC_FROM)
    last = op.Pow(z, power)
    total = op.Add(total, op.Mul(last, op.Add(op.Div(z, op.Sub(s, 1)), 0.5)))
    term = op.Div(op.Mul(s, last), z)
    square = op.Mul(z, z)
    for k, b in enumerate(_B, 1):
        total = op.Add(total, op.Mul(term, op.constant(b / math.factorial(2 * k), q.dtype)))
        rise = op.Mul(op.Add(s, 2 * k - 1), op.Add(s, 2 * k))
        term = op.Div(op.Mul(term, rise), square)
    return total


@converter(
    "torch.special.zeta", cases=[case("float32[n,3]", "float32[n,3]"), case(2.5, "float32[n,3]")]
)
def zeta(op, input, other):
    dtype = op.result.dtype
    s, q = (op.cast(op.cast(v, dtype), torch.float64) for v in (input, other))
    above = op.Greater(q, 0)
    right = _hurwitz(op, s, op.Where(above, q, 1))
    # Below 0, only integer powers: the terms there equal those of a sum above 0, up to sign.
    part, rest = op.Sub(q, op.Floor(q)), op.Sub(op.Add(op.Floor(q), 1), q)
    beside = op.Sub(_hurwitz(op, s, rest), _hurwitz(op, s, op.Sub(1, op.Where(above, 0, q))))
    odd = op.Equal(op.Mod(s, op.constant(2.0, torch.float64), fmod=1), 1)
    left = op.Add(_hurwitz(op, s, part), op.Where(odd, op.Neg(beside), beside))
    left = op.Where(op.Equal(s, op.Floor(s)), left, math.nan)
    left = op.Where(op.Equal(q, op.Floor(q)), math.inf, left)
    y = op.Where(above, right, left)
    y = op.Where(op.Less(s, 1), math.nan, op.Where(op.Equal(s, 1), math.inf, y))
    return op.cast(op.Where(op.IsNaN(q), q, y), dtype)


def _cotangent_derivative(n):
    """Return the nth derivative of cot as a polynomial in cot, the constant first."""
    found = [0.0, 1.0]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(found)][1:]
        found = [-(a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope])]
    return found


@converter(
    "torch.polygamma", "torch.special.polygamma", cases=[case(n, "float32[n,3]") for n in range(4)]
)
def polygamma(op, n, input):
    if hasattr(n, "rank"):  # the method: x.polygamma(n)
        n, input = input, n
    dtype = op.result.dtype
    x = op.cast(op.cast(input, dtype), torch.float64)
    if n == 0:
        return op.cast(digamma(op, x), dtype)
    low = op.Less(x, 0)
    y = _hurwitz(op, op.constant(float(n + 1), x.dtype), op.Where(low, op.Sub(1, x), x))
    y = op.Mul(y, float((-1) ** (n + 1) * math.factorial(n)))
    turn = _turn(op, x)
    slopes = _cotangent_derivative(n)[::-1]
    slope = polynomial(op, op.Div(op.Cos(turn), op.Sin(turn)), slopes)
    mirror = op.Sub(op.Mul(y, float((-1) ** n)), op.Mul(slope, math.pi ** (n + 1)))
    whole = op.And(op.LessOrEqual(x, 0), op.Equal(x, op.Floor(x)))
    pole = math.inf if n % 2 else -math.inf
    return op.cast(op.Where(whole, pole, op.Where(low, mirror, y)), dtype)


@converter(
    "torch.mvlgamma", "torch.special.multigammaln", cases=[case(lambda: 2 + torch.rand(4), 2)]
)
def mvlgamma(op, input, p):
    x = op.cast(op.cast(input, op.result.dtype), torch.float64)
    total = op.constant(p * (p - 1) / 4 * math.log(math.pi), x.dtype)
    for j in range(p):
        total = op.Add(total, log_gamma(op, op.Sub(x, j / 2)))
    return op.cast(total, op.result.dtype)


# The shares of the gamma distribution.


def _until_settled(op, states, step, change):
    """Repeat a step while some element changes by more than a rounding error."""

    def go_on(*states):
        moving = op.cast(op.Greater(op.Abs(change(*states)), 1e-15), torch.int32)
        flat = op.Concat(op.Reshape(moving, [-1]), op.constant([0], torch.int32), axis=0)
        return op.cast(op.ReduceMax(flat, keepdims=0), torch.bool)

    return loop(op, 1_000_000, states, step, go_on)


def _lower(op, a, x):
    """Sum the series x ** k / ((a + 1) ... (a + k))."""
    one = op.Add(op.Mul(op.Add(a, x), 0), 1)
    _, _, total = _until_settled(
        op, [op.Mul(one, 0), one, one],
        lambda _, k, term, total: (
            op.Add(k, 1),
            (term := op.Div(op.Mul(term, x), op.Add(a, op.Add(k, 1)))),
            op.Add(total, term),
        ),
        lambda k, term, total: op.Div(term, total),
    )  # fmt: skip
    return total


def _upper(op, a, x):
    """Evaluate Legendre's continued fraction from the front, by Lentz's method."""
    b = op.Add(op.Sub(x, a), 1)
    first = op.Reciprocal(b)
    zero = op.Mul(b, 0)

    def step(_, i, b, c, d, total, change):
        i, b = op.Add(i, 1), op.Add(b, 2)
        factor = op.Mul(i, op.Sub(a, i))
        d = op.Reciprocal(op.Add(op.Mul(factor, d), b))
        c = op.Add(b, op.Div(factor, c))
        ratio = op.Mul(c, d)
        return i, b, c, d, op.Mul(total, ratio), op.Sub(ratio, 1)

    states = [zero, b, op.Add(zero, 1e300), first, first, op.Add(zero, 1)]
    return _until_settled(op, states, step, lambda *states: states[-1])[4]


def _shares(op, a, x):
    """Return the shares of the gamma integral below x and above x."""
    usual = op.And(op.Greater(a, 0), op.Greater(x, 0))
    usual = op.And(usual, op.Not(op.Or(op.IsInf(a), op.IsInf(x))))
    below = op.Less(x, op.Add(a, 1))
    near, far = op.And(usual, below), op.And(usual, op.Not(below))
    height = op.Sub(op.Sub(op.Mul(a, op.Log(x)), x), log_gamma(op, a))
    low = op.Mul(op.Exp(height), op.Div(_lower(op, op.Where(near, a, 1), op.Where(near, x, 0)), a))
    high = op.Mul(op.Exp(height), _upper(op, op.Where(far, a, 1), op.Where(far, x, 2)))
    low, high = (op.Where(near, low, op.Sub(1, high)), op.Where(near, op.Sub(1, low), high))
    # At the edges, everything lies on one side.
    left = op.Or(op.Equal(x, 0), op.IsInf(a))
    right = op.Or(op.Equal(a, 0), op.IsInf(x))
    neither = op.Or(op.And(left, right), op.Or(op.Less(a, 0), op.Less(x, 0)))
    neither = op.Or(neither, op.And(op.Equal(a, 0), op.IsNaN(x)))

    def put(y, at_left, at_right):
        y = op.Where(left, at_left, op.Where(right, at_right, y))
        return op.Where(neither, math.nan, y)

    return put(low, 0, 1), put(high, 1, 0)


def _incomplete(upper):
    def convert(op, input, other):
        dtype = op.result.dtype
        a, x = (op.cast(op.cast(v, dtype), torch.float64) for v in (input, other))
        return op.cast(_shares(op, a, x)[upper], dtype)

    return convert


TWO = [case(lambda: 4 * torch.rand(3, 4), lambda: 4 * torch.rand(3, 4))]

CONVERTERS = [
    *functions({
        ("lgamma", "special.gammaln"): log_gamma,
        ("digamma", "special.digamma", "special.psi"): digamma,
    }),
    converter("torch.igamma", "torch.special.gammainc", cases=TWO)(_incomplete(0)),
    converter("torch.igammac", "torch.special.gammaincc", cases=TWO)(_incomplete(1)),
]  # fmt: skip
