"""Elementwise arithmetic and mathematics."""

from __future__ import annotations

import functools
import math

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, below_zero, loop, promoted, scaled, sign_of_zeros
from ._halves import number_unrounded, rounded_once
from .cumulative import log_add
from .elementwise import NUMBERS, truncated

TWO = [case("float32[n,3]", "float32[n,3]"), case("float32[n,3]", "float32[3]")]


@converter("torch.add", cases=[*TWO, case("float32[n,3]", 2), case("int64[n,3]", 1.5)])
def add(op, input, other, *, alpha=1):
    if op.result.dtype == torch.bool:
        return op.Or(input, other) if alpha else op.Or(input, False)
    if not op.same(alpha, 1):
        return _combined(op, "Add", input, other, alpha)
    return op.Add(*as_result(op, input, other))


@rounded_once
def _combined(op, name, input, other, alpha):
    x, y = as_result(op, input, other)
    return getattr(op, name)(x, scaled(op, y, alpha))


@converter("torch.sub", "torch.subtract", cases=[*TWO, case("float32[n,3]", 2)])
def sub(op, input, other, *, alpha=1):
    if not op.same(alpha, 1):
        return _combined(op, "Sub", input, other, alpha)
    return op.Sub(*as_result(op, input, other))


@converter("torch.rsub", cases=[case("float32[n,3]", 2)])
def rsub(op, input, other, *, alpha=1):
    return sub(op, other, input, alpha=alpha)


@converter("torch.mul", "torch.multiply", cases=[*TWO, case("float32[n,3]", 2)])
@number_unrounded
def mul(op, input, other):
    x, y = as_result(op, input, other)
    return op.And(x, y) if op.result.dtype == torch.bool else op.Mul(x, y)


@converter("torch.div", "torch.divide", "torch.true_divide", cases=[*TWO, case("int64[n,3]", 2)])
def div(op, input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(op, input, other)
    if rounding_mode == "trunc":
        return _towards_zero(op, input, other)
    return _quotient(op, input, other)


@number_unrounded
def _quotient(op, input, other):
    return op.Div(*as_result(op, input, other))


@rounded_once
def _towards_zero(op, input, other):
    return truncated(op, op.Div(*as_result(op, input, other)))


@converter("torch.Tensor.__rdiv__", cases=[case("float32[n,3]", 1)])
@number_unrounded
def rdiv(op, self, other):
    if type(other) not in (int, float) or other != 1:
        return NotImplemented  # PyTorch multiplies by the reciprocal, which rounds twice
    x, _ = as_result(op, self, other)
    return op.Reciprocal(x)


@converter("torch.floor_divide",
           cases=[*TWO, case("int64[n,3]", 2)])  # fmt: skip
@rounded_once
def floor_divide(op, input, other):
    x, y = as_result(op, input, other)
    if not op.result.dtype.is_floating_point:
        return _downwards(op, x, y)
    # As PyTorch: by the exact remainder, since a quotient may round up to the next number.
    rest = op.Mod(x, y, fmod=1)
    whole = op.Round(op.Div(op.Sub(x, rest), y))
    whole = op.Where(op.Less(op.Mul(rest, y), 0), op.Sub(whole, 1), whole)
    return whole if _nonzero(other) else op.Where(op.Equal(y, 0), op.Div(x, y), whole)


def _downwards(op, x, y):
    """Divide integers and round down; ONNX rounds towards zero."""
    whole = op.Div(x, y)
    if not x.dtype.is_signed:
        return whole
    right = op.Equal(op.Sub(x, op.Mul(whole, y)), op.Mod(x, y))
    return op.Sub(whole, op.cast(op.Not(right), x.dtype))


def _nonzero(x):
    return isinstance(x, (int, float)) and type(x) in (int, float) and x != 0


@converter("torch.remainder", cases=[*TWO, case("int64[n,3]", 2)])
def remainder(op, input, other):
    x, y = as_result(op, input, other)
    return _rest(op, x, y) if x.dtype.is_floating_point else op.Mod(x, y)


@rounded_once
def _rest(op, x, y):
    rest = op.Mod(x, y, fmod=1)
    return op.Where(op.Less(op.Mul(rest, y), 0), op.Add(rest, y), rest)


@converter("torch.fmod", cases=TWO)
def fmod(op, input, other):
    x, y = as_result(op, input, other)
    if x.dtype.is_floating_point:
        return op.Mod(x, y, fmod=1)
    return op.Sub(x, op.Mul(op.Div(x, y), y))  # onnxruntime's Mod goes through doubles


@converter("torch.pow", cases=[case("float32[n,3]", 2), case("float32[n,3]", 0.5),
                              case("int64[n,3]<9", "int64[n,3]<9")])  # fmt: skip
def pow(op, input, exponent):
    x = op.cast(input, op.result.dtype)
    if type(exponent) is float and exponent == 0.5:
        return op.Sqrt(x)
    if type(exponent) in (int, float) and exponent == 2 and not x.dtype.is_floating_point:
        return op.Mul(x, x)
    if x.dtype.is_floating_point:
        return op.Pow(x, op.cast(exponent, x.dtype))
    if type(exponent) is int and 0 < exponent < 64:
        return functools.reduce(op.Mul, [x] * exponent)
    return _whole_power(op, x, op.cast(exponent, x.dtype))


def _any(op, x):
    """Return whether any element is true, as a scalar value for a loop; False for no elements."""
    flat = op.Concat(
        op.Reshape(op.cast(x, torch.int32), [-1]), op.constant([0], torch.int32), axis=0
    )
    return op.cast(op.ReduceMax(flat, keepdims=0), torch.bool)


def _whole_power(op, x, n):
    """Raise integers to a power by squaring, exactly, where onnxruntime would round.

    A negative power is 0 except for 1 and -1.
    """
    kind = x.dtype
    x, n = (op.cast(v, torch.int64) for v in (x, n))
    one = op.Add(op.Mul(op.Add(x, n), 0), 1)
    odd = op.Equal(op.Mod(n, 2), 1)

    def step(_, y, square, left):
        y = op.Where(op.Equal(op.Mod(left, 2), 1), op.Mul(y, square), y)
        return y, op.Mul(square, square), op.Div(left, 2)

    states = [one, op.Mul(x, one), op.Mul(op.Max(n, 0), one)]
    y, _, _ = loop(op, 63, states, step, lambda y, square, left: _any(op, op.Greater(left, 0)))
    inverse = op.Where(op.Equal(x, 1), 1, op.Where(op.Equal(x, -1), op.Where(odd, -1, 1), 0))
    return op.cast(op.Where(op.Less(n, 0), inverse, y), kind)


@converter("torch.gcd", cases=[case("int64[n,3]<50", "int64[n,3]<50")])
def gcd(op, input, other):
    """Compute gcd by Euclid: the remainder replaces the smaller number until it is 0."""
    x, y = (op.Abs(v) for v in as_result(op, input, other))
    zero = op.Mul(op.Add(x, y), 0)

    def step(_, x, y):
        none = op.Equal(y, 0)
        return op.Where(none, x, y), op.Where(none, y, op.Mod(x, op.Where(none, 1, y)))

    states = [op.Add(x, zero), op.Add(y, zero)]
    found, _ = loop(op, 100, states, step, lambda x, y: _any(op, op.Not(op.Equal(y, 0))))
    return found


@converter("torch.lcm", cases=[case("int64[n,3]<50", "int64[n,3]<50")])
def lcm(op, input, other):
    x, y = as_result(op, input, other)
    common = gcd(op, x, y)
    none = op.Equal(common, 0)
    return op.Where(none, 0, op.Abs(op.Mul(op.Div(x, op.Where(none, 1, common)), y)))


@converter("torch.maximum", cases=TWO)
def maximum(op, input, other):
    return op.Max(*promoted(op, input, other))


@converter("torch.minimum", cases=TWO)
def minimum(op, input, other):
    return op.Min(*promoted(op, input, other))


@converter("torch.fmax", cases=TWO)
def fmax(op, input, other):
    return _but_nan(op, op.Max, *as_result(op, input, other))


@converter("torch.fmin", cases=TWO)
def fmin(op, input, other):
    return _but_nan(op, op.Min, *as_result(op, input, other))


def _but_nan(op, pick, x, y):
    """Pick one of two numbers by `pick`; if either is NaN, take the other."""
    if not x.dtype.is_floating_point:
        return pick(x, y)
    return op.Where(op.IsNaN(x), y, op.Where(op.IsNaN(y), x, pick(x, y)))


@converter("torch.clamp_min", cases=[case("float32[n,3]", 0.1)])
def clamp_min(op, input, min):
    return clamp(op, input, min)


@converter("torch.clamp_max", cases=[case("float32[n,3]", 0.1)])
def clamp_max(op, input, max):
    return clamp(op, input, None, max)


@converter("torch.clamp", "torch.clip",
           cases=[case("float32[n,3]", 0.0, 1.0), case("float32[n,3]", min=0.1),
                  case("float32[n,3]", math.nan, 1.0)])  # fmt: skip
def clamp(op, input, min=None, max=None):
    dtype = op.result.dtype
    x = op.cast(input, dtype)
    # With one bound, onnxruntime's Clip also cuts infinite numbers off at the missing bound; and it
    # ignores a bound that is NaN.
    one_sided = dtype.is_floating_point and (min is None or max is None)
    one_sided |= any(type(bound) is float and math.isnan(bound) for bound in (min, max))
    if not one_sided and not any(hasattr(bound, "rank") and bound.rank for bound in (min, max)):
        low = None if min is None else op.cast(min, dtype)
        return op.Clip(x, low, None if max is None else op.cast(max, dtype))
    if min is not None:
        x = op.Max(x, op.cast(min, dtype))
    return x if max is None else op.Min(x, op.cast(max, dtype))


@converter("torch.addcmul", cases=[case("float32[n,3]", "float32[n,3]", "float32[3]", value=0.5)])
@rounded_once
def addcmul(op, input, tensor1, tensor2, *, value=1):
    x, a, b = as_result(op, input, tensor1, tensor2)
    return op.Add(x, scaled(op, op.Mul(a, b), value))


@converter("torch.addcdiv", cases=[case("float32[n,3]", "float32[n,3]", "float32[3]", value=0.5)])
@rounded_once
def addcdiv(op, input, tensor1, tensor2, *, value=1):
    x, a, b = as_result(op, input, tensor1, tensor2)
    return op.Add(x, scaled(op, op.Div(a, b), value))


@converter("torch.lerp", cases=[case("float32[n,3]", "float32[n,3]", 0.3)])
@rounded_once
def lerp(op, input, end, weight):
    x, y, w = as_result(op, input, end, weight)
    return between(op, x, y, w, weight if type(weight) in (int, float) else None)


def between(op, x, y, w, known=None):
    """Interpolate from the nearer end, as PyTorch does; infinite ends show the difference."""
    span = op.Sub(y, x)
    near, far = op.Add(x, op.Mul(w, span)), op.Sub(y, op.Mul(span, op.Sub(1, w)))
    if known is not None:
        return near if abs(known) < 0.5 else far
    return op.Where(op.Less(op.Abs(w), 0.5), near, far)


@converter("torch.atan2", "torch.arctan2", cases=TWO)
@rounded_once
def atan2(op, input, other):
    return turned(op, *as_result(op, input, other))


def turned(op, y, x):
    """Compute the angle of the point (x, y)."""
    here = op.And(op.Equal(x, 0), op.Equal(y, 0))
    sign = sign_of_zeros(y)
    none = y if sign is None else op.constant(math.copysign(0, sign), y.dtype)
    size = op.Abs(x)  # as large as y: half a right angle, also if both are infinite
    slope = op.Where(op.Equal(op.Abs(y), size), op.Sign(y), op.Div(y, size))
    angle = op.Where(here, none, op.Atan(slope))
    half = op.Where(below_zero(op, y), op.constant(-math.pi, y.dtype), math.pi)
    return op.Where(below_zero(op, x), op.Sub(half, angle), angle)


@converter("torch.copysign", cases=TWO)
def copysign(op, input, other):
    x, y = as_result(op, input, other)
    size = op.Abs(x)
    return op.Where(below_zero(op, y), op.Neg(size), size)


@converter("torch.hypot", cases=TWO)
@rounded_once
def hypot(op, input, other):
    """Compute a hypotenuse; the larger side scales both, so that no square overflows."""
    x, y = (op.Abs(v) for v in as_result(op, input, other))
    large, small = op.Max(x, y), op.Min(x, y)
    ratio = op.Div(small, op.Where(op.Equal(large, 0), 1, large))
    infinite = op.Or(op.Equal(x, math.inf), op.Equal(y, math.inf))  # even beside NaN
    return op.Where(infinite, math.inf, op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1))))


@converter("torch.heaviside", cases=TWO)
def heaviside(op, input, values):
    x, y = as_result(op, input, values)
    return op.Where(op.Equal(x, 0), y, op.cast(op.Greater(x, 0), x.dtype))


def _times_log(op, x, logarithm, y):
    """Compute x * log(y), which is 0 if x is 0 and y is not NaN."""
    nothing = op.And(op.Equal(x, 0), op.Not(op.IsNaN(y)))
    return op.Where(nothing, 0, op.Mul(x, logarithm))


@converter("torch.xlogy", "torch.special.xlogy", cases=[case("float32[n,3]", "float32[n,3]")])
@rounded_once
def xlogy(op, input, other):
    x, y = as_result(op, input, other)
    return _times_log(op, x, op.Log(y), y)


@converter("torch.special.xlog1py", cases=[case("float32[n,3]", "float32[n,3]<1")])
@rounded_once
def xlog1py(op, input, other):
    x, y = as_result(op, input, other)
    return _times_log(op, x, NUMBERS["log1p"](op, y), y)  # type: ignore[operator]


@converter("torch.logaddexp", cases=TWO[:1])
@rounded_once
def logaddexp(op, input, other):
    return log_add(op, *as_result(op, input, other))


@converter("torch.logaddexp2", cases=TWO[:1])
@rounded_once
def logaddexp2(op, input, other):
    x, y = (op.Mul(v, math.log(2)) for v in as_result(op, input, other))
    return op.Div(log_add(op, x, y), math.log(2))


@converter("torch.ldexp", cases=[case("float32[n,3]", "int64[n,3]<5")])
@rounded_once
def ldexp(op, input, other):
    x, power = as_result(op, input, other)
    return op.Mul(x, op.Pow(op.constant(2, x.dtype), power))
