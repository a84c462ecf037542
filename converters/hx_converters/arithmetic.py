"""Elementwise arithmetic and mathematics."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, promoted

TWO = [case("float32[n,3]", "float32[n,3]"), case("float32[n,3]", "float32[3]")]
ONE = [case("float32[n,3]")]


def _scaled(op, x, alpha):
    return x if alpha == 1 else op.Mul(x, alpha)


@converter("torch.add", cases=[*TWO, case("float32[n,3]", 2), case("int64[n,3]", 1.5)])
def add(op, input, other, *, alpha=1):
    x, y = as_result(op, input, other)
    if op.result.dtype == torch.bool:
        return op.Or(x, y)
    return op.Add(x, _scaled(op, y, alpha))


@converter("torch.sub", "torch.subtract", cases=[*TWO, case("float32[n,3]", 2)])
def sub(op, input, other, *, alpha=1):
    x, y = as_result(op, input, other)
    return op.Sub(x, _scaled(op, y, alpha))


@converter("torch.rsub", cases=[case("float32[n,3]", 2)])
def rsub(op, input, other, *, alpha=1):
    x, y = as_result(op, input, other)
    return op.Sub(y, _scaled(op, x, alpha))


@converter("torch.mul", "torch.multiply", cases=[*TWO, case("float32[n,3]", 2)])
def mul(op, input, other):
    x, y = as_result(op, input, other)
    return op.And(x, y) if op.result.dtype == torch.bool else op.Mul(x, y)


@converter("torch.div", "torch.divide", "torch.true_divide", cases=[*TWO, case("int64[n,3]", 2)])
def div(op, input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(op, input, other)
    if rounding_mode == "trunc":
        x, y = as_result(op, input, other)
        return _trunc(op, op.Div(x, y))
    return op.Div(*as_result(op, input, other))


@converter("torch.Tensor.__rdiv__", cases=[case("float32[n,3]", 2.0)])
def rdiv(op, self, other):
    x, y = as_result(op, self, other)
    return op.Reciprocal(x) if other == 1 else op.Div(y, x)


@converter("torch.floor_divide",
           cases=[*TWO, case("int64[n,3]", 2)])  # fmt: skip
def floor_divide(op, input, other):
    x, y = as_result(op, input, other)
    if op.result.dtype.is_floating_point:
        return op.Floor(op.Div(x, y))
    # ONNX divides integers towards zero: take the remainder away first.
    return op.Div(op.Sub(x, op.Mod(x, y)), y)


@converter("torch.remainder", cases=[*TWO, case("int64[n,3]", 2)])
def remainder(op, input, other):
    x, y = as_result(op, input, other)
    if op.result.dtype.is_floating_point:
        return op.Sub(x, op.Mul(op.Floor(op.Div(x, y)), y))
    return op.Mod(x, y)


@converter("torch.fmod", cases=TWO)
def fmod(op, input, other):
    return op.Mod(*as_result(op, input, other), fmod=1)


@converter("torch.pow", cases=[case("float32[n,3]", 2), case("float32[n,3]", 0.5)])
def pow(op, input, exponent):
    x = op.cast(input, op.result.dtype)
    if isinstance(exponent, (int, float)) and exponent == 0.5:
        return op.Sqrt(x)
    if isinstance(exponent, (int, float)) and exponent == 2:
        return op.Mul(x, x)
    return op.Pow(x, op.cast(exponent, op.result.dtype))


def _trunc(op, x):
    if not x.dtype.is_floating_point:
        return x
    return op.Mul(op.Sign(x), op.Floor(op.Abs(x)))


@converter("torch.trunc", "torch.fix", cases=ONE)
def trunc(op, input):
    return _trunc(op, input)


@converter("torch.square", cases=ONE)
def square(op, input):
    return op.Mul(input, input)


@converter("torch.rsqrt", cases=[])
def rsqrt(op, input):
    return op.Reciprocal(op.Sqrt(op.cast(input, op.result.dtype)))


def _unary(name):
    def convert(op, input):
        return getattr(op, name)(op.cast(input, op.result.dtype))

    return convert


# PyTorch's name -> ONNX's; integers are computed as floats, as PyTorch does.
UNARY = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "abs": "Abs",
    "neg": "Neg", "sign": "Sign", "ceil": "Ceil", "floor": "Floor", "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "negative": "Neg", "absolute": "Abs",
}  # fmt: skip
for _name, _op in UNARY.items():
    globals()[_name] = converter(f"torch.{_name}", cases=ONE)(_unary(_op))


@converter("torch.maximum", cases=TWO)
def maximum(op, input, other):
    return op.Max(*promoted(op, input, other))


@converter("torch.minimum", cases=TWO)
def minimum(op, input, other):
    return op.Min(*promoted(op, input, other))


@converter("torch.clamp", "torch.clip",
           cases=[case("float32[n,3]", 0.0, 1.0), case("float32[n,3]", min=0.1)])  # fmt: skip
def clamp(op, input, min=None, max=None):
    dtype = op.result.dtype
    x = op.cast(input, dtype)
    if not any(hasattr(bound, "rank") and bound.rank for bound in (min, max)):
        low = None if min is None else op.cast(min, dtype)
        return op.Clip(x, low, None if max is None else op.cast(max, dtype))
    if min is not None:
        x = op.Max(x, op.cast(min, dtype))
    return x if max is None else op.Min(x, op.cast(max, dtype))


@converter("torch.lerp", cases=[case("float32[n,3]", "float32[n,3]", 0.25)])
def lerp(op, input, end, weight):
    return op.Add(input, op.Mul(op.cast(weight, input.dtype), op.Sub(end, input)))


@converter("torch.addcmul", cases=[])
def addcmul(op, input, tensor1, tensor2, *, value=1):
    return op.Add(input, _scaled(op, op.Mul(tensor1, tensor2), value))


