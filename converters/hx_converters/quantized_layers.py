"""Layers and functions of quantized tensors; `hx.quantized` rounds their results.

Their arguments are quantized, or packed for a kernel, so their cases are whole networks:
tests/models/test_quantized.py.
"""

from __future__ import annotations

import functools

from hx import converter
from hx.lazy import torch

from . import convolution, normalization
from ._common import is_value
from .linear import linear

CONVERTERS: list = []


def _kernels(*names):
    """Register a converter for kernels of PyTorch's quantized library, by their names."""
    return converter(*(f"quantized::{name}" for name in names), cases=[])


def _also_with_relu(*names):
    """Register as `_kernels` does, and also for the kernels with a ReLU after them."""

    def register(function):
        @functools.wraps(function)
        def with_relu(op, *args, **kwargs):
            return op.Relu(function(op, *args, **kwargs))

        behind = (f"{name.removesuffix('_dynamic')}_relu{'_dynamic' * name.endswith('_dynamic')}"
                  for name in names)  # fmt: skip
        CONVERTERS.append(_kernels(*behind)(with_relu))
        return _kernels(*names)(function)

    return register


# Quantizing and dequantizing.


@converter("torch.quantize_per_tensor", "torch.quantize_per_channel", cases=[])
def quantize(op, input, *args, **kwargs):
    given = (*args, *kwargs.values())
    if any(is_value(n) and not n.is_constant for n in given):
        op.refuse("the steps of a quantized tensor depend on the data",
                  "quantize with a scale and a zero point that are known before")  # fmt: skip
    return input


@converter("torch.Tensor.dequantize", "torch.dequantize", cases=[])
def dequantize(op, self):
    return self


# Layers, whose weights are packed for a kernel.


def _weight(op, weight):
    scale, zero, axis = op.quantization(weight)
    along = {} if axis is None else {"axis": axis}
    return op.DequantizeLinear(
        op.constant(weight.int_repr()), op.constant(scale), op.constant(zero), **along
    )


def _linear(op, x, packed):
    weight, bias = packed.unpack()
    return linear(op, x, _weight(op, weight), None if bias is None else op.constant(bias))


def _on_own_steps(op, x, reduce_range):
    """Round to 256 steps, or half as many, that span zero and the smallest and largest number.

    QNNPACK, the engine on ARM, always takes all of them.
    """
    reduce_range = reduce_range and torch.backends.quantized.engine != "qnnpack"
    low, high = op.Min(op.ReduceMin(x, keepdims=0), 0.0), op.Max(op.ReduceMax(x, keepdims=0), 0.0)
    scale = op.Div(op.Sub(high, low), 127.0 if reduce_range else 255.0)
    scale = op.Where(op.Equal(scale, 0.0), 0.1, scale)
    parts = scale, op.cast(op.Round(op.Neg(op.Div(low, scale))), torch.uint8)
    return op.DequantizeLinear(op.QuantizeLinear(x, *parts), *parts)


@_also_with_relu("linear")
def quantized_linear(op, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _linear(op, X, W_prepack)


@_also_with_relu("linear_dynamic")
def linear_dynamic(op, X, W_prepack, reduce_range=False):
    return _linear(op, _on_own_steps(op, X, reduce_range), W_prepack)


@_kernels("linear_leaky_relu")
def linear_leaky_relu(op, X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    return op.LeakyRelu(_linear(op, X, W_prepack), alpha=negative_slope)


@_kernels("linear_tanh")
def linear_tanh(op, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return op.Tanh(_linear(op, X, W_prepack))


def _conv(op, x, packed):
    if x.rank == 3:  # packed as if it were one of two dimensions
        weight, bias = torch.ops.quantized.conv1d_unpack(packed)
    else:
        weight, bias = packed.unpack()
    weight, bias = _weight(op, weight), None if bias is None else op.constant(bias)
    stride, padding, dilation, more = (
        list(sizes)[2 - x.rank :]
        for sizes in (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
    )
    if packed.transpose():
        return convolution.conv_transpose(
            op, x, weight, bias, stride, padding, more, packed.groups(), dilation
        )
    return convolution.conv2d(op, x, weight, bias, stride, padding, dilation, packed.groups())


@_also_with_relu("conv1d", "conv2d", "conv3d")
def conv(op, qx, packed_weight, output_scale, output_zero_point):
    return _conv(op, qx, packed_weight)


@_kernels("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(op, qi, packed_weight, output_scale, output_zero_point):
    return _conv(op, qi, packed_weight)


@_also_with_relu("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d")
def batch_norm(op, qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
    return normalization.batch_norm(op, qx, weight, bias, mean, var, False, 0.0, eps)


@_kernels("layer_norm")
def layer_norm(op, input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    return normalization.layer_norm(op, input, normalized_shape, weight, bias, eps)


@_kernels("group_norm")
def group_norm(op, qx, num_groups, weight, bias, eps, output_scale, output_zero_point):
    return normalization.group_norm(op, qx, num_groups, weight, bias, eps)


@_kernels("instance_norm")
def instance_norm(op, qx, weight, bias, eps, output_scale, output_zero_point):
    return normalization.instance_norm(op, qx, weight, bias, None, None, True, 0.0, eps)


# Functions of one tensor, and of several.


@_kernels("hardswish")
def hardswish(op, input, output_scale, output_zero_point):
    return op.HardSwish(input)


@_kernels("leaky_relu")
def leaky_relu(op, qx, negative_slope, inplace, output_scale, output_zero_point):
    return op.LeakyRelu(qx, alpha=negative_slope)


@_kernels("elu")
def elu(op, self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    return NotImplemented if (scale, input_scale) != (1, 1) else op.Elu(self, alpha=alpha)


@_kernels("sigmoid")
def sigmoid(op, qx, output_scale, output_zero_point):
    return op.Sigmoid(qx)


@_kernels("softmax")
def softmax(op, qx, dim, output_scale, output_zero_point):
    return op.Softmax(qx, axis=dim)


@_kernels("relu6")
def relu6(op, qx, inplace=False):
    return op.Clip(qx, 0.0, 6.0)


@_kernels("dropout")
def dropout(op, self, output_scale, output_zero_point, p=0.5, training=False):
    return self


@_also_with_relu("add", "add_scalar")
def add(op, qa, qb, scale=None, zero_point=None):
    return op.Add(qa, qb)


@_also_with_relu("mul", "mul_scalar")
def mul(op, qa, qb, scale=None, zero_point=None):
    return op.Mul(qa, qb)


@_kernels("matmul")
def matmul(op, qa, qb, scale=None, zero_point=None):
    return op.MatMul(qa, qb)


@_also_with_relu("cat")
def cat(op, qx, dim, scale=None, zero_point=None):
    return op.Concat(*qx, axis=dim)
