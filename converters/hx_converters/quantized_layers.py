"""Layers and functions of quantized tensors; `hx.quantized` rounds what they give."""

from __future__ import annotations

from hx import converter
from hx.lazy import torch
from hx.quantized import steps

from . import convolution
from ._common import is_value
from .linear import linear


def _converts(*names):
    """A converter for functions of PyTorch's library of quantized kernels, by their names."""
    # Their arguments are quantized, or packed for a kernel: tests/models/test_quantized.py.
    return converter(*(f"quantized::{name}" for name in names), cases=[])


# To numbers on steps, and back.


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
    scale, zero, axis = steps(weight)
    along = {} if axis is None else {"axis": axis}
    return op.DequantizeLinear(
        op.constant(weight.int_repr()), op.constant(scale), op.constant(zero), **along
    )


def _linear(op, x, packed):
    weight, bias = packed.unpack()
    return linear(op, x, _weight(op, weight), None if bias is None else op.constant(bias))


@_converts("linear")
def q_linear(op, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _linear(op, X, W_prepack)


@_converts("linear_relu")
def q_linear_relu(op, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return op.Relu(_linear(op, X, W_prepack))


def _on_own_steps(op, x, reduce_range):
    """On 256 steps, or half of them, between the least and the largest number, and zero."""
    low, high = op.Min(op.ReduceMin(x, keepdims=0), 0.0), op.Max(op.ReduceMax(x, keepdims=0), 0.0)
    scale = op.Div(op.Sub(high, low), 127.0 if reduce_range else 255.0)
    scale = op.Where(op.Equal(scale, 0.0), 0.1, scale)
    parts = scale, op.cast(op.Round(op.Neg(op.Div(low, scale))), torch.uint8)
    return op.DequantizeLinear(op.QuantizeLinear(x, *parts), *parts)


@_converts("linear_dynamic")
def q_linear_dynamic(op, X, W_prepack, reduce_range=False):
    return _linear(op, _on_own_steps(op, X, reduce_range), W_prepack)


@_converts("linear_relu_dynamic")
def q_linear_relu_dynamic(op, X, W_prepack, reduce_range=False):
    return op.Relu(_linear(op, _on_own_steps(op, X, reduce_range), W_prepack))


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


@_converts("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d")  # fmt: skip
def q_conv1d(op, qx, packed_weight, output_scale, output_zero_point):
    return _conv(op, qx, packed_weight)


@_converts("conv1d_relu", "conv2d_relu", "conv3d_relu")
def q_conv1d_relu(op, qx, packed_weight, output_scale, output_zero_point):
    return op.Relu(_conv(op, qx, packed_weight))


@_converts("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d")
def batch_norm(op, qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
    channels = mean.shape[0]
    weight = op.constant([1.0] * channels) if weight is None else weight
    bias = op.constant([0.0] * channels) if bias is None else bias
    return op.BatchNormalization(qx, weight, bias, mean, var, epsilon=eps)


@_converts("batch_norm_relu", "batch_norm1d_relu", "batch_norm2d_relu", "batch_norm3d_relu")
def q_batch_norm_relu(op, qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
    given = weight, bias, mean, var, eps, output_scale, output_zero_point
    return op.Relu(batch_norm(op, qx, *given))


# Functions of one or two tensors.


@_converts("add")
def q_add(op, qa, qb, scale=None, zero_point=None):
    return op.Add(qa, qb)


@_converts("add_relu")
def q_add_relu(op, qa, qb, scale=None, zero_point=None):
    return op.Relu(op.Add(qa, qb))


@_converts("add_scalar")
def q_add_scalar(op, qa, b):
    return op.Add(qa, b)


@_converts("mul")
def q_mul(op, qa, qb, scale=None, zero_point=None):
    return op.Mul(qa, qb)


@_converts("mul_relu")
def q_mul_relu(op, qa, qb, scale=None, zero_point=None):
    return op.Relu(op.Mul(qa, qb))


@_converts("mul_scalar")
def q_mul_scalar(op, qa, b):
    return op.Mul(qa, b)


@_converts("matmul")
def q_matmul(op, qa, qb, scale=None, zero_point=None):
    return op.MatMul(qa, qb)


@_converts("cat")
def q_cat(op, qx, dim, scale=None, zero_point=None):
    return op.Concat(*qx, axis=dim)


@_converts("cat_relu")
def q_cat_relu(op, qx, dim, scale=None, zero_point=None):
    return op.Relu(op.Concat(*qx, axis=dim))


@_converts("hardswish")
def q_hardswish(op, input, output_scale, output_zero_point):
    return op.HardSwish(input)


@_converts("leaky_relu")
def q_leaky_relu(op, qx, negative_slope, inplace, output_scale, output_zero_point):
    return op.LeakyRelu(qx, alpha=negative_slope)


@_converts("sigmoid")
def q_sigmoid(op, qx, output_scale, output_zero_point):
    return op.Sigmoid(qx)


@_converts("softmax")
def q_softmax(op, qx, dim, output_scale, output_zero_point):
    return op.Softmax(qx, axis=dim)


@_converts("relu6")
def q_relu6(op, qx, inplace=False):
    return op.Clip(qx, 0.0, 6.0)


@_converts("dropout")
def q_dropout(op, self, output_scale, output_zero_point, p=0.5, training=False):
    return self
