"""Quantization to few bits and back: fake quantization, and quantized tensors."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import is_value


def _number(op, x, dtype):
    if not is_value(x):
        return op.constant(x, dtype)
    return op.constant(x.tensor.to(dtype)) if x.is_constant else op.cast(x, dtype)


def _beside(op, x, axis, rank):
    """Reshape one number for each channel so that it lies along the channels."""
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
    parts = _parts(op, scale, zero_point, kind, axis)
    return op.DequantizeLinear(_quantized(op, x, parts, low, high, axis), *parts, **_along(axis))


def _parts(op, scale, zero_point, kind, axis):
    """Return the scale and the zero point in the form that ONNX takes for a dtype."""
    parts = [_number(op, scale, torch.float32), _number(op, zero_point, kind)]
    return [_scalar(op, n) for n in parts] if axis is None else parts


def _along(axis):
    return {} if axis is None else {"axis": axis}


def _quantized(op, x, parts, low, high, axis):
    held = torch.iinfo(parts[1].dtype)
    if all(n.is_constant and not n.tensor.is_meta for n in (x, *parts)):
        stored = _steps(x.tensor, *(n.tensor for n in parts), low, high, axis)
        return op.constant(stored.to(parts[1].dtype))
    if (low, high) != (held.min, held.max):  # QuantizeLinear would go on to the end of the dtype
        least, largest = (_beside(op, n, axis, x.rank) for n in _ends(op, low, high, *parts))
        x = op.Min(op.Max(x, least), largest)
    return op.QuantizeLinear(x, *parts, **_along(axis))


def _scalar(op, n):
    if not n.rank:
        return n
    return op.constant(n.tensor.reshape(())) if n.is_constant else op.Reshape(n, [])


def _steps(x, scale, zero_point, low, high, axis):
    """Quantize a weight as PyTorch does."""
    if axis is not None:
        sizes = [-1] + [1] * (x.dim() - 1 - axis)
        scale, zero_point = scale.reshape(sizes), zero_point.reshape(sizes)
    return (x * (1 / scale) + zero_point).round().clamp(low, high)


def _ends(op, low, high, scale, zero_point):
    """Return the values of the first and last step, smallest first; a negative scale swaps them."""
    if all(part.is_constant and not part.tensor.is_meta for part in (scale, zero_point)):
        ends = [(n - zero_point.tensor.float()) * scale.tensor for n in (low, high)]
        return op.constant(torch.minimum(*ends)), op.constant(torch.maximum(*ends))
    zero = op.cast(zero_point, torch.float32)
    ends = [op.Mul(op.Sub(op.constant(float(n)), zero), scale) for n in (low, high)]
    return op.Min(*ends), op.Max(*ends)


def _by_hand(op, x, scale, zero_point, low, high, axis):
    steps, scale, zero = _rounded(op, x, scale, zero_point, axis)
    held = op.Clip(steps, op.constant(low, x.dtype), op.constant(high, x.dtype))
    return op.Mul(op.Sub(held, zero), scale)


def _inside(op, x, scale, zero_point, low, high, axis=None):
    steps, _, _ = _rounded(op, x, scale, zero_point, axis)
    bounds = op.constant(low, x.dtype), op.constant(high, x.dtype)
    return op.And(op.GreaterOrEqual(steps, bounds[0]), op.LessOrEqual(steps, bounds[1]))


@converter("torch.fake_quantize_per_tensor_affine", kept=True,
           cases=[case("float32[n,3]", 0.1, 3, 0, 255, expect=["QuantizeLinear"]),
                  case("float32[n,3]", 0.1, 0, -127, 127, expect=["QuantizeLinear"]),
                  case("float32[n,3]", 0.001, 5, -3000, 3000),
                  case("float32[n,3]", -0.1, 2, 0, 100, expect=["QuantizeLinear"]),
                  case("float32[n,3]", lambda: torch.tensor(0.1), lambda: torch.tensor(2),
                       -128, 127)])  # fmt: skip
def fake_quantize_per_tensor_affine(op, input, scale, zero_point, quant_min, quant_max):
    return _fake(op, input, scale, zero_point, quant_min, quant_max)


@converter("torch.fake_quantize_per_channel_affine", kept=True,
           cases=[case("float32[n,3]", lambda: torch.rand(3) + 0.1, lambda: torch.arange(3, dtype=torch.int32), 1, 0,
                       255, expect=["QuantizeLinear"]),
                  case("float32[n,3]", lambda: torch.tensor([0.2, -0.2, -0.1]),
                       lambda: torch.arange(3, dtype=torch.int32), 1, -7, 6,
                       expect=["QuantizeLinear"]),
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


# Scale and zero point of a whole tensor, in tensors of one element.
ONE_SCALE, ONE_ZERO = (lambda: torch.tensor([0.1])), (lambda: torch.tensor([3]))
ON, OFF = (lambda: torch.tensor([1])), (lambda: torch.tensor([0]))


@converter("torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
           cases=[case("float32[n,3]", ONE_SCALE, ONE_ZERO, on, 0, 20) for on in (ON, OFF)])  # fmt: skip
def fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    op, self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """Convert fake quantization; while its switch is off, numbers stay, and all count as inside."""
    given = _scalar(op, scale), _scalar(op, zero_point), quant_min, quant_max
    found, inside = _fake(op, self, *given), _inside(op, self, *given)
    on = op.Greater(_scalar(op, fake_quant_enabled), 0)
    return op.Where(on, found, self), op.Or(op.Not(on), inside)


@converter("torch._fake_quantize_learnable_per_tensor_affine",
           cases=[case("float32[n,3]", ONE_SCALE, lambda: torch.tensor([2.5]), 0, 31),
                  case("float32[n,3]", ONE_SCALE, lambda: torch.tensor([-4.0]), 0, 31)])  # fmt: skip
def fake_quantize_learnable_per_tensor_affine(op, self, scale, zero_point, quant_min, quant_max,
                                              grad_factor=1.0):  # fmt: skip
    zero_point = _rounded_zero(op, _scalar(op, zero_point), quant_min, quant_max)
    return _fake(op, self, _scalar(op, scale), zero_point, quant_min, quant_max)


@converter("torch._fake_quantize_learnable_per_channel_affine",
           cases=[case("float32[n,3]", lambda: torch.rand(3) + 0.1,
                       lambda: torch.tensor([0.5, 99, 3.7]), 1, 0, 31)])  # fmt: skip
def fake_quantize_learnable_per_channel_affine(op, self, scale, zero_point, axis, quant_min,
                                               quant_max, grad_factor=1.0):  # fmt: skip
    zero_point = _rounded_zero(op, zero_point, quant_min, quant_max)
    return _fake(op, self, scale, zero_point, quant_min, quant_max, axis % self.rank)


def _rounded_zero(op, zero_point, low, high):
    """Round a learned zero point to one of the steps."""
    if zero_point.is_constant and not zero_point.tensor.is_meta:
        return op.constant(zero_point.tensor.round().clamp(low, high).to(torch.int32))
    ends = [op.constant(n, zero_point.dtype) for n in (low, high)]
    return op.cast(op.Clip(op.Round(zero_point), *ends), torch.int32)


@converter("torch.fused_moving_avg_obs_fake_quant", kept=True, cases=[])  # its switches are buffers
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


# Operators of networks that were quantized after their export (PT2E).

SCALES, ZEROS = (lambda: torch.rand(3) + 0.1), (lambda: torch.tensor([3, 0, 7]))
UINT8, INT8, FLOAT32 = (lambda: torch.uint8), (lambda: torch.int8), (lambda: torch.float32)


def _to_integers(op, x, scale, zero_point, low, high, dtype, axis=None):
    bounds = [n.item() if is_value(n) and n.is_constant else n for n in (low, high)]
    if dtype not in (torch.int8, torch.uint8) or any(map(is_value, bounds)):
        return NotImplemented
    parts = _parts(op, scale, zero_point, dtype, axis)
    return _quantized(op, op.cast(x, torch.float32), parts, *bounds, axis)


def _from_integers(op, x, scale, zero_point, out_dtype, axis=None):
    floating = is_value(zero_point) and zero_point.dtype.is_floating_point
    if x.dtype not in (torch.int8, torch.uint8) or floating:
        return NotImplemented
    if out_dtype not in (None, torch.float32):  # PyTorch rounds at every step
        return NotImplemented
    if zero_point is None:
        return op.DequantizeLinear(x, _number(op, scale, torch.float32), **_along(axis))
    return op.DequantizeLinear(x, *_parts(op, scale, zero_point, x.dtype, axis), **_along(axis))


@converter("quantized_decomposed::quantize_per_tensor",
           cases=[case("float32[n,3]", 0.1, 3, 0, 255, UINT8, expect=["QuantizeLinear"]),
                  case("float32[n,3]", 0.1, 0, -127, 127, INT8, expect=["QuantizeLinear"]),
                  case("float16[n,3]", 0.1, 3, -128, 127, INT8, expect=["QuantizeLinear"])])  # fmt: skip
def quantize_per_tensor(op, input, scale, zero_point, quant_min, quant_max, dtype):
    return _to_integers(op, input, scale, zero_point, quant_min, quant_max, dtype)


@converter("quantized_decomposed::quantize_per_channel",
           cases=[case("float32[n,3,2]", SCALES, ZEROS, 1, -128, 127, INT8,
                       expect=["QuantizeLinear"])])  # fmt: skip
def quantize_per_channel(op, input, scales, zero_points, axis, quant_min, quant_max, dtype):
    axis %= input.rank
    return _to_integers(op, input, scales, zero_points, quant_min, quant_max, dtype, axis)


@converter("quantized_decomposed::dequantize_per_tensor", kept=True,
           cases=[case("uint8[n,3]", 0.1, 3, 0, 255, UINT8, expect=["DequantizeLinear"])])  # fmt: skip
def dequantize_per_tensor(op, input, scale, zero_point, quant_min, quant_max, dtype, *,
                          out_dtype=None):  # fmt: skip
    return _from_integers(op, input, scale, zero_point, out_dtype)


@converter("quantized_decomposed::dequantize_per_channel", kept=True,
           cases=[case("int8[n,3,2]", SCALES, ZEROS, 1, -128, 127, INT8,
                       expect=["DequantizeLinear"]),
                  case("int8[n,3,2]", SCALES, None, -2, -128, 127, INT8,
                       expect=["DequantizeLinear"])])  # fmt: skip
def dequantize_per_channel(op, input, scales, zero_points, axis, quant_min, quant_max, dtype, *,
                           out_dtype=None):  # fmt: skip
    return _from_integers(op, input, scales, zero_points, out_dtype, axis % input.rank)


@converter("quantized_decomposed::dequantize_per_channel_group", kept=True,
           cases=[case("int8[3,8]", lambda: torch.rand(3, 2) + 0.1,
                       lambda: torch.arange(6).reshape(3, 2), -8, 7, INT8, 4, FLOAT32,
                       expect=["DequantizeLinear"]),
                  case("int8[3,8]", lambda: torch.rand(3, 2) + 0.1, None, -8, 7, INT8, 4, FLOAT32,
                       expect=["DequantizeLinear"])])  # fmt: skip
def dequantize_per_channel_group(op, w_int8, scales, zero_points, quant_min, quant_max, dtype,
                                 group_size, output_dtype):  # fmt: skip
    flat = [n if n is None else op.Reshape(n, [-1]) for n in (scales, zero_points)]
    rows = _from_integers(op, op.Reshape(w_int8, [-1, group_size]), *flat, output_dtype, 0)
    return rows if rows is NotImplemented else op.Reshape(rows, w_int8.shape)


@converter("torch._int_mm", cases=[case("int8[n,8]", "int8[8,16]")])
def int_mm(op, self, mat2):
    return op.MatMulInteger(self, mat2)
