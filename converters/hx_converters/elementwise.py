"""Table of functions of one number: PyTorch's name, and ONNX's name or a formula."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import below_zero
from ._halves import rounded_once

CASES = [case("float32[n,3]")]


def truncated(op, x):
    if not x.dtype.is_floating_point:
        return x
    return op.Mul(op.Sign(x), op.Floor(op.Abs(x)))


def _log1p(op, x):
    """Compute log1p; near 0, where 1 + x loses digits of x, by the inverse of tanh."""
    near = op.Mul(op.Atanh(op.Div(x, op.Add(x, 2))), 2)
    return op.Where(op.Less(op.Abs(x), 0.5), near, op.Log(op.Add(x, 1)))


def _expm1(op, x):
    """Compute expm1; near 0, where exp(x) - 1 loses digits of x, by tanh."""
    t = op.Tanh(op.Mul(x, 0.5))
    near = op.Div(op.Mul(t, 2), op.Sub(1, t))
    return op.Where(op.Less(op.Abs(x), 1), near, op.Sub(op.Exp(x), 1))


def _exp2(op, x):
    return op.Pow(op.constant(2, x.dtype), x)


def _sinc(op, x):
    y = op.Mul(x, math.pi)
    return op.Where(op.Equal(x, 0), 1, op.Div(op.Sin(y), y))


def _frac(op, x):
    return op.Sub(x, truncated(op, x))


def _angle(op, x):
    y = op.Where(op.Less(x, 0), op.constant(math.pi, op.result.dtype), 0)
    return op.Where(op.IsNaN(x), x, y) if x.dtype.is_floating_point else y


def _sign(op, x):
    sign = op.Sign(x)
    return op.Where(op.IsNaN(x), 0, sign) if x.dtype.is_floating_point else sign


def _whole(name):
    return lambda op, x: getattr(op, name)(x) if x.dtype.is_floating_point else x


# Computed in the dtype of the result: integers become floats if PyTorch makes them floats.
NUMBERS = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "abs": "Abs",
    "neg": "Neg", "sign": _sign, "sgn": _sign, "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid", "tanh": "Tanh",
    "ceil": _whole("Ceil"), "floor": _whole("Floor"), "trunc": truncated, "frac": _frac,
    "square": lambda op, x: op.Mul(x, x),
    "rsqrt": lambda op, x: op.Reciprocal(op.Sqrt(x)),
    "exp2": _exp2, "expm1": _expm1, "log1p": _log1p,
    "log2": lambda op, x: op.Div(op.Log(x), math.log(2)),
    "log10": lambda op, x: op.Div(op.Log(x), math.log(10)),
    "erfc": lambda op, x: op.Sub(1, op.Erf(x)),
    "deg2rad": lambda op, x: op.Mul(x, math.pi / 180),
    "rad2deg": lambda op, x: op.Mul(x, 180 / math.pi),
    "sinc": _sinc,
}  # fmt: skip

# Predicates, and functions computed in the dtype of the input.
QUESTIONS = {
    "isnan": lambda op, x: op.IsNaN(x) if x.dtype.is_floating_point else _never(op, x),
    "isinf": lambda op, x: op.IsInf(x) if x.dtype.is_floating_point else _never(op, x),
    "isposinf": lambda op, x: _infinite(op, x, detect_negative=0),
    "isneginf": lambda op, x: _infinite(op, x, detect_positive=0),
    "isfinite": lambda op, x: op.Not(op.Or(op.IsInf(x), op.IsNaN(x)))
    if x.dtype.is_floating_point else op.Not(_never(op, x)),
    "signbit": lambda op, x: below_zero(op, x),
    "angle": _angle,
}  # fmt: skip

ALIASES = {
    "negative": "neg", "absolute": "abs", "fix": "trunc", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "special.expit": "sigmoid", "special.erf": "erf", "special.erfc": "erfc",
    "special.exp2": "exp2", "special.expm1": "expm1", "special.log1p": "log1p",
    "special.sinc": "sinc",
}  # fmt: skip


def _never(op, x):
    return op.Expand(op.constant(False), op.sizes(x.shape))


def _infinite(op, x, **kind):
    return op.IsInf(x, **kind) if x.dtype.is_floating_point else _never(op, x)


def _number(name, formula):
    def convert(op, input):
        x = op.cast(input, op.result.dtype)
        return getattr(op, formula)(x) if isinstance(formula, str) else formula(op, x)

    if not isinstance(formula, str):
        convert = rounded_once(convert)
    names = [name, *(alias for alias, of in ALIASES.items() if of == name)]
    return converter(*(f"torch.{n}" for n in names), cases=CASES)(convert)


def _question(name, formula):
    def convert(op, input):
        return formula(op, input)

    return converter(f"torch.{name}", cases=CASES)(convert)


CONVERTERS = [
    *(_number(name, formula) for name, formula in NUMBERS.items()),
    *(_question(name, formula) for name, formula in QUESTIONS.items()),
]


@converter("torch.round", "torch.special.round", cases=[*CASES, case("float32[n,3]", decimals=2)])
@rounded_once
def round(op, input, *, decimals=0):
    if not input.dtype.is_floating_point:
        return input
    if decimals == 0:
        return op.Round(input)
    scale = 10.0 ** abs(decimals)
    shift, back = (op.Mul, op.Div) if decimals > 0 else (op.Div, op.Mul)
    return back(op.Round(shift(input, scale)), scale)


@converter("torch.nan_to_num", cases=CASES)
def nan_to_num(op, input, nan=0.0, posinf=None, neginf=None):
    if not input.dtype.is_floating_point:
        return input
    info = torch.finfo(input.dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    x = op.Where(op.IsNaN(input), op.constant(0.0 if nan is None else nan, input.dtype), input)
    x = op.Where(op.IsInf(input, detect_negative=0), op.constant(high, input.dtype), x)
    return op.Where(op.IsInf(input, detect_positive=0), op.constant(low, input.dtype), x)


@converter(
    "torch.logit",
    "torch.special.logit",
    cases=[case("float32[n,3]", 0.1), case("float32[n,3]", 0.7)],
)
@rounded_once
def logit(op, input, eps=None):
    x = op.cast(input, op.result.dtype)
    if eps is not None:
        x = _away_from_ends(op, x, eps)
    return op.Log(op.Div(x, op.Sub(1, x)))


def _away_from_ends(op, x, eps):
    """Clamp to eps and 1 - eps; if eps is above 1 - eps, the lower end is applied first."""
    if type(eps) in (int, float):
        if eps < 0:
            return x
        low, high = op.constant(eps, x.dtype), op.constant(1 - eps, x.dtype)
        if eps <= 0.5:
            return op.Min(op.Max(x, low), high)
    else:
        low = op.cast(eps, x.dtype)
        none = op.Less(low, 0)
        low, high = op.Where(none, -math.inf, low), op.Where(none, math.inf, op.Sub(1, low))
    return op.Where(op.Less(x, low), low, op.Min(x, high))


def _mantissa_and_exponent(op, x):
    """Split a finite nonzero float64: guess the exponent by a logarithm, then correct it."""
    guess = op.Floor(op.Div(op.Log(op.Abs(x)), math.log(2)))
    mantissa = op.Div(x, op.Pow(op.constant(2.0, torch.float64), guess))
    size = op.Abs(mantissa)
    low, high = op.Less(size, 0.5), op.GreaterOrEqual(size, 1)
    mantissa = op.Where(low, op.Mul(mantissa, 2), op.Where(high, op.Mul(mantissa, 0.5), mantissa))
    exponent = op.Where(low, op.Sub(guess, 1), op.Where(high, op.Add(guess, 1), guess))
    return mantissa, exponent


@converter("torch.frexp", cases=CASES)
def frexp(op, input):
    """Return a mantissa from 0.5 to 1, and an exponent."""
    finite = op.Not(op.Or(op.IsNaN(input), op.IsInf(input)))
    some = op.And(finite, op.Not(op.Equal(input, 0)))
    x = op.cast(op.Where(some, input, 1), torch.float64)
    mantissa, exponent = _mantissa_and_exponent(op, x)
    return (
        op.Where(some, op.cast(mantissa, input.dtype), input),
        op.Where(some, op.cast(exponent, torch.int32), 0),
    )


@converter("torch.nextafter", cases=[case("float32[n,3]", "float32[n,3]")])
def nextafter(op, input, other):
    """Step by one unit in the last place, computed in float64, which represents it exactly."""
    if op.result.dtype == torch.float64:
        op.refuse("ONNX cannot step from one float64 to the next", "cast to float32 first")
    info = torch.finfo(op.result.dtype)
    x, y = (op.cast(v, torch.float64) for v in (input, other))
    size = op.Abs(x)
    finite = op.Where(op.Or(op.IsInf(x), op.IsNaN(x)), info.max, size)
    finite = op.Where(op.Less(size, info.tiny), info.tiny, finite)
    mantissa, exponent = _mantissa_and_exponent(op, finite)
    up = op.Greater(y, x)
    inwards = op.Not(op.Equal(up, op.Greater(x, 0)))
    # From a power of two towards 0, steps are half as long.
    edge = op.And(op.And(inwards, op.Equal(mantissa, 0.5)), op.Greater(size, info.tiny))
    share = op.Where(edge, op.constant(info.eps / 4, x.dtype), info.eps / 2)
    step = op.Mul(op.Pow(op.constant(2.0, x.dtype), exponent), share)
    moved = op.Add(x, op.Where(up, step, op.Neg(step)))
    moved = op.Where(op.And(op.IsInf(x), inwards), op.Mul(op.Sign(x), info.max), moved)
    moved = op.Where(op.Or(op.Equal(x, y), op.IsNaN(y)), y, moved)
    return op.cast(moved, op.result.dtype)
