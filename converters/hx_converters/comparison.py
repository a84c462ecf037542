"""Comparisons, logic, bits, and choices between values."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, is_value, promoted, wrapped
from .ordering import nonzero

TWO = [case("float32[n,3]", "float32[n,3]"), case("int64[n,3]", 1)]


def _compared(name):
    def convert(op, input, other):
        if not (is_value(other) or isinstance(other, (int, float, complex))):
            return NotImplemented  # `x == "none"` is False: what Python makes of two unlike things
        x, y = promoted(op, input, other)
        if x.dtype == torch.bool and name != "Equal":
            x, y = op.cast(x, torch.int32), op.cast(y, torch.int32)
        return getattr(op, name)(x, y)

    return convert


for _target, _op in {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                     "ge": "GreaterOrEqual", "less": "Less", "less_equal": "LessOrEqual",
                     "greater": "Greater", "greater_equal": "GreaterOrEqual"}.items():  # fmt: skip
    globals()[_target] = converter(f"torch.{_target}", cases=TWO)(_compared(_op))


@converter("torch.ne", "torch.not_equal", cases=TWO)
def ne(op, input, other):
    return op.Not(op.Equal(*promoted(op, input, other)))


def _truth(op, x):
    return op.cast(x, torch.bool)


@converter("torch.logical_not", cases=[case("float32[n,3]")])
def logical_not(op, input):
    return op.Not(_truth(op, input))


def _logical(name):
    def convert(op, input, other):
        return getattr(op, name)(_truth(op, input), _truth(op, other))

    return convert


for _target in ("and", "or", "xor"):
    globals()[f"logical_{_target}"] = converter(f"torch.logical_{_target}", cases=TWO[:1])(
        _logical(_target.capitalize())
    )


BITS = [case("bool[n,3]", "bool[n,3]"),
        case("int64[n,3]<99", "int64[n,3]<99", opsets=(18, 20, 26))]  # fmt: skip


def _bitwise(name):
    def convert(op, input, other):
        x, y = as_result(op, input, other)
        return getattr(op, name if x.dtype == torch.bool else f"Bitwise{name}")(x, y)

    return convert


for _target in ("and", "or", "xor"):
    globals()[f"bitwise_{_target}"] = converter(f"torch.bitwise_{_target}", cases=BITS)(
        _bitwise(_target.capitalize())
    )


# Shifts: a shift by as many bits as the dtype has, or more, leaves none of the number.

SHIFTS = [case("int64[n,3]", 2), case("int64[n,3]", "int64[n,3]<99"), case("int64[n,3]", 63)]


def _places(op, other, dtype, ends):
    """Return the power of two for a shift, and whether the shift lies outside of `0 ... ends`."""
    if type(other) is int:
        places = wrapped(other, dtype)
        outside = not 0 <= places <= ends
        return op.constant(wrapped(1 << (0 if outside else places), dtype), dtype), outside
    places = op.cast(other, dtype)
    outside = op.Or(op.Less(places, 0), op.Greater(places, ends))
    powers = op.constant([wrapped(1 << i, dtype) for i in range(ends + 1)], dtype)
    return op.Gather(powers, op.cast(op.Where(outside, 0, places), torch.int64)), outside


def _shifted(op, outside, beyond, within):
    if isinstance(outside, bool):
        return beyond() if outside else within()
    return op.Where(outside, beyond(), within())


@converter("torch.bitwise_left_shift", cases=SHIFTS)
def bitwise_left_shift(op, input, other):
    dtype = op.result.dtype
    x = op.cast(input, dtype)
    power, outside = _places(op, other, dtype, torch.iinfo(dtype).bits - 1)
    return _shifted(op, outside, lambda: op.Mul(x, 0), lambda: op.Mul(x, power))


@converter("torch.bitwise_right_shift", cases=SHIFTS)
def bitwise_right_shift(op, input, other):
    """Divide by a power of two and round down, because the sign bit is shifted in from the left."""
    dtype = op.result.dtype
    x = op.cast(input, dtype)
    signed = dtype.is_signed
    power, outside = _places(op, other, dtype, torch.iinfo(dtype).bits - (2 if signed else 1))

    def signs():
        return op.Neg(op.cast(op.Less(x, 0), dtype)) if signed else op.Mul(x, 0)

    return _shifted(op, outside, signs, lambda: op.Div(op.Sub(x, op.Mod(x, power)), power))


@converter("torch.bitwise_not",
           cases=[case("bool[n,3]"), case("int64[n,3]<99", opsets=(18, 20, 26))])  # fmt: skip
def bitwise_not(op, input):
    return op.Not(input) if input.dtype == torch.bool else op.BitwiseNot(input)


@converter("torch.where", cases=[
    case("bool[n,3]", "float32[n,3]", "float32[n,3]"), case("bool[n,3]"),
])  # fmt: skip
def where(op, condition, input=None, other=None):
    if input is None:
        return nonzero(op, condition)
    return op.Where(_truth(op, condition), *as_result(op, input, other))


@converter("torch.Tensor.where", cases=[case("float32[n,3]", "bool[n,3]", "float32[n,3]")])
def where_method(op, self, condition, other):
    return where(op, condition, self, other)


@converter("torch.masked_fill", cases=[case("float32[n,3]", "bool[n,3]", -1.0)])
def masked_fill(op, input, mask, value):
    return op.Where(mask, op.cast(value, input.dtype), input)
