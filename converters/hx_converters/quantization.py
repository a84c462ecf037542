"""Fake quantization: rounded to the numbers that few bits can hold, and back."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import is_value


def _number(op, x, dtype):
    if not is_value(x):
        return op.constant(x, dtype)
    return op.constant(x.tensor.to(dtype)) if x.is_constant else op.cast(x, dtype)


def _beside(op, x, axis, rank):
    """One number for each channel, laid along the channels."""
    return x if axis is None or not x.rank else op.Reshape(x, [-1] + [1] * (rank - 1 - axis))


def _rounded(op, x, scale, zero_point, axis):
    scale, zero = _number(op, scale, x.dtype), _number(op, zero_point, x.dtype)
    scale, zero = (_beside(op, n, axis, x.rank) for n in (scale, zero))
    return op.Round(op.Add(op.Div(x, scale), zero)), scale, zero


def _fake(op, x, scale, zero_point, low, high, axis=None):
    kind = torch.uint8 if low >= 0 else torch.int8
    held = torch.iinfo(kind)
    floating = is_value(zero_point) and zero_point.dtype.is_floating_point
    if x.dtype != torch.float32 or floating or low < held.min or high > held.max:
        return _by_hand(op, x, scale, zero_point, low, high, axis)
    parts = [_number(op, scale, torch.float32), _number(op, zero_point, kind)]
    if axis is None:
        parts = [_scalar(op, n) for n in parts]
    named = {} if axis is None else {"axis": axis}
    if all(n.is_constant and not n.tensor.is_meta for n in (x, *parts)):
        stored = _steps(x.tensor, *(n.tensor for n in parts), low, high, axis)
        return op.DequantizeLinear(op.constant(stored.to(kind)), *parts, **named)
    if (low, high) != (held.min, held.max):  # QuantizeLinear would go on to the end of the dtype
        bounds = [_bound(op, n, *parts, axis, x.rank) for n in (low, high)]
        x = op.Min(op.Max(x, bounds[0]), bounds[1])
    return op.DequantizeLinear(op.QuantizeLinear(x, *parts, **named), *parts, **named)


def _scalar(op, n):
    if not n.rank:
        return n
    return op.constant(n.tensor.reshape(())) if n.is_constant else op.Reshape(n, [])


def _steps(x, scale, zero_point, low, high, axis):
    """A weight as PyTorch rounds it."""
    if axis is not None:
        sizes = [-1] + [1] * (x.dim() - 1 - axis)
        scale, zero_point = scale.reshape(sizes), zero_point.reshape(sizes)
    return (x * (1 / scale) + zero_point).round().clamp(low, high)


def _bound(op, n, scale, zero_point, axis, rank):
    steps = op.Sub(op.constant(float(n)), op.cast(zero_point, torch.float32))
    return _beside(op, op.Mul(steps, scale), axis, rank)


def _by_hand(op, x, scale, zero_point, low, high, axis):
    steps, scale, zero = _rounded(op, x, scale, zero_point, axis)
    held = op.Clip(steps, op.constant(low, x.dtype), op.constant(high, x.dtype))
    return op.Mul(op.Sub(held, zero), scale)


def _inside(op, x, scale, zero_point, low, high, axis=None):
    steps, _, _ = _rounded(op, x, scale, zero_point, axis)
    bounds = op.constant(low, x.dtype), op.constant(high, x.dtype)
    return op.And(op.GreaterOrEqual(steps, bounds[0]), op.LessOrEqual(steps, bounds[1]))


@converter("torch.fake_quantize_per_tensor_affine",
           cases=[case("float32[n,3]", 0.1, 3, 0, 255, expect=["QuantizeLinear"]),
                  case("float32[n,3]", 0.1, 0, -127, 127, expect=["QuantizeLinear"]),
                  case("float32[n,3]", 0.001, 5, -3000, 3000),
                  case("float32[n,3]", lambda: torch.tensor(0.1), lambda: torch.tensor(2),
                       -128, 127)])  # fmt: skip
def fake_quantize_per_tensor_affine(op, input, scale, zero_point, quant_min, quant_max):
    return _fake(op, input, scale, zero_point, quant_min, quant_max)


@converter("torch.fake_quantize_per_channel_affine",
           cases=[case("float32[n,3]", lambda: torch.rand(3) + 0.1, lambda: torch.arange(3, dtype=torch.int32), 1, 0,
                       255, expect=["QuantizeLinear"]),
                  case("float32[n,3,2]", lambda: torch.rand(3) + 0.1, lambda: torch.rand(3), 1, -7,
                       7)])  # fmt: skip
def fake_quantize_per_channel_affine(op, input, scale, zero_point, axis, quant_min, quant_max):
    return _fake(op, input, scale, zero_point, quant_min, quant_max, axis % input.rank)


@converter("torch.ops.aten.fake_quantize_per_tensor_affine_cachemask",
           cases=[case("float32[n,3]", 0.1, 3, 0, 20)])  # fmt: skip
def fake_quantize_per_tensor_affine_cachemask(op, self, *given):
    return _fake(op, self, *given), _inside(op, self, *given)


@converter("torch.ops.aten.fake_quantize_per_channel_affine_cachemask",
           cases=[case("float32[n,3]", lambda: torch.rand(3) + 0.1, lambda: torch.arange(3, dtype=torch.int32), 1, 0,
                       9)])  # fmt: skip
def fake_quantize_per_channel_affine_cachemask(op, self, scale, zero_point, axis, low, high):
    given = scale, zero_point, low, high, axis % self.rank
    return _fake(op, self, *given), _inside(op, self, *given)


@converter("torch.fused_moving_avg_obs_fake_quant", cases=[])  # its switches are buffers
def fused_moving_avg_obs_fake_quant(
    op, self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant=False,
    symmetric_quant=False,
):  # fmt: skip
    if not (observer_on.is_constant and fake_quant_on.is_constant) or observer_on.item():
        op.refuse("an observer is on, and watches what goes through it",
                  "call model.apply(torch.ao.quantization.disable_observer)")  # fmt: skip
    if not fake_quant_on.item():
        return self
    axis = ch_axis % self.rank if per_row_fake_quant else None
    return _fake(op, self, scale, zero_point, quant_min, quant_max, axis)


@converter("torch._int_mm", cases=[case("int8[n,8]", "int8[8,16]")])
def int_mm(op, self, mat2):
    return op.MatMulInteger(self, mat2)
