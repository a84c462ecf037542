"""Translations of an operator's newest form into older opsets.

Converters write the newest form. Where an older opset has the operator in another form (axes as an
attribute), or a few simpler nodes compute the same, a function here writes those: it gets the newest
form's inputs and attributes and returns values. After NotImplemented, the call raises the error that
names the opset it needs.
"""

from __future__ import annotations

import math

import torch

from ..ir.value import Value
from .operator_forms import OperatorForms

LOWERINGS = OperatorForms()


def _numbers(value: Value | None) -> list | None:
    """The contents of a constant vector; None when they are only known at run time."""
    if value is None or not value.is_constant:
        return None
    listed = value.tolist()  # type: ignore[attr-defined]
    return listed if isinstance(listed, list) else [listed]


def _node(op, name, inputs, attributes, count=None):
    values = getattr(op, name)(*inputs, outputs=count or 1, **attributes)
    return values[0] if count is None else values


@LOWERINGS.of(
    "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def reduce(op, inputs, attributes, count, name):
    """Axes as an attribute, before opset 18."""
    noop = attributes.pop("noop_with_empty_axes", 0)
    axes = _numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else []
    if axes is None:
        return NotImplemented
    if not axes and noop:
        return op.Identity(inputs[0])
    return _node(op, name, inputs[:1], {**attributes, "axes": axes or None})


@LOWERINGS.of("Shape")
def shape(op, inputs, attributes, count):
    """The whole shape, then a slice of it, before opset 15."""
    whole = op.Shape(inputs[0])
    start, end = attributes.get("start", 0), attributes.get("end", inputs[0].rank)
    return op.Slice(whole, [start], [end], [0])


@LOWERINGS.of("Split")
def split(op, inputs, attributes, count):
    """num_outputs came with opset 18; sizes as an input with 13."""
    attributes = {k: v for k, v in attributes.items() if k != "num_outputs"}
    return _node(op, "Split", inputs, attributes, count)


@LOWERINGS.of("Pad")
def pad(op, inputs, attributes, count):
    """Axes came with opset 18: before, every axis has its pads."""
    x, pads = inputs[:2]
    axes = _numbers(inputs[3]) if len(inputs) > 3 else None
    if attributes.get("mode") == "wrap" or axes is None:
        return NotImplemented
    places = [end * x.rank + axis % x.rank for end in (0, 1) for axis in axes]
    known = dict(zip(places, _numbers(pads) or ()))
    full = op.constant([known.get(place, 0) for place in range(2 * x.rank)], torch.int64)
    if not known:  # only the run knows them
        full = op.ScatterElements(full, op.constant(places, torch.int64), pads, axis=0)
    return op.Pad(x, full, *inputs[2:3], **attributes)


@LOWERINGS.of("DFT")
def dft(op, inputs, attributes, count):
    """The axis is an input since opset 20."""
    axis = _numbers(inputs[2]) if len(inputs) > 2 else [-2]
    if axis is None:
        return NotImplemented
    return _node(op, "DFT", inputs[:2], {**attributes, "axis": axis[0]})


@LOWERINGS.of("LayerNormalization")
def layer_normalization(op, inputs, attributes, count):
    x, scale, *rest = inputs
    axis, eps = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, x.rank))
    wide = op.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    centred = op.Sub(wide, op.ReduceMean(wide, axes))
    variance = op.ReduceMean(op.Mul(centred, centred), axes)
    y = op.cast(op.Div(centred, op.Sqrt(op.Add(variance, eps))), x.dtype)
    y = op.Mul(y, scale)
    return op.Add(y, rest[0]) if rest and rest[0] is not None else y


@LOWERINGS.of("RMSNormalization")
def rms_normalization(op, inputs, attributes, count):
    x, scale = inputs
    axis, eps = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, x.rank))
    wide = op.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = op.ReduceMean(op.Mul(wide, wide), axes)
    return op.Mul(op.cast(op.Div(wide, op.Sqrt(op.Add(mean, eps))), x.dtype), scale)


@LOWERINGS.of("GroupNormalization")
def group_normalization(op, inputs, attributes, count):
    """Scale and bias for each channel came with opset 21."""
    x, scale, bias = inputs
    groups, eps = attributes["num_groups"], attributes.get("epsilon", 1e-5)
    n, c, *rest = x.shape
    flat = op.Reshape(x, op.sizes([n, groups, -1]))
    one = op.constant([1.0] * groups, x.dtype)
    zero = op.constant([0.0] * groups, x.dtype)
    normal = op.InstanceNormalization(flat, one, zero, epsilon=eps)
    y = op.Reshape(normal, op.sizes([n, c, *rest]))
    trailing = list(range(1, 1 + len(rest)))
    return op.Add(op.Mul(y, op.Unsqueeze(scale, trailing)), op.Unsqueeze(bias, trailing))


@LOWERINGS.of("Gelu")
def gelu(op, inputs, attributes, count):
    (x,) = inputs
    if attributes.get("approximate", "none") == "tanh":
        # With Pow, onnxruntime knows it again, and has one node for all of it.
        inner = op.Mul(op.Add(x, op.Mul(op.Pow(x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
        return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(inner), 1.0))
    return op.Mul(op.Mul(x, 0.5), op.Add(op.Erf(op.Div(x, math.sqrt(2.0))), 1.0))


@LOWERINGS.of("Mish")
def mish(op, inputs, attributes, count):
    return op.Mul(inputs[0], op.Tanh(op.Softplus(inputs[0])))


@LOWERINGS.of("HardSwish")
def hard_swish(op, inputs, attributes, count):
    return op.Mul(inputs[0], op.HardSigmoid(inputs[0], alpha=1 / 6, beta=0.5))


@LOWERINGS.of("Swish")
def swish(op, inputs, attributes, count):
    scaled = inputs[0]
    if attributes.get("alpha", 1.0) != 1.0:
        scaled = op.Mul(scaled, attributes["alpha"])
    return op.Mul(inputs[0], op.Sigmoid(scaled))


@LOWERINGS.of("Trilu")
def trilu(op, inputs, attributes, count):
    """Rows and columns compared, before opset 14."""
    x = inputs[0]
    k = inputs[1] if len(inputs) > 1 else op.constant(0)
    rows = op.Unsqueeze(op.Range(0, op.constant(x.shape[-2]), 1), [1])
    columns = op.Unsqueeze(op.Range(0, op.constant(x.shape[-1]), 1), [0])
    offset = op.Sub(columns, rows)
    if attributes.get("upper", 1):
        keep = op.Not(op.Less(offset, k))
    else:
        keep = op.Not(op.Greater(offset, k))
    zero = op.constant(False if x.dtype == torch.bool else 0, x.dtype)
    return op.Where(keep, x, zero)


@LOWERINGS.of("Resize")
def resize(op, inputs, attributes, count):
    """Axes came with opset 18: before, every axis has its size or scale."""
    x, axes = inputs[0], attributes.pop("axes", None)
    attributes = {k: v for k, v in attributes.items() if k in _RESIZE_13}
    if axes is None or len(attributes) < 1:
        return NotImplemented
    if len(inputs) > 3 and inputs[3] is not None:
        whole = op.Shape(x)
        head = op.Slice(whole, [0], [axes[0]], [0])
        full = op.Concat(head, inputs[3], axis=0) if axes[0] else inputs[3]
        return op.Resize(x, None, None, full, **attributes)
    ones = op.constant([1.0] * axes[0])
    return op.Resize(x, None, op.Concat(ones, inputs[2], axis=0), **attributes)


_RESIZE_13 = {
    "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value",
    "mode", "nearest_mode",
}  # fmt: skip


@LOWERINGS.of("BatchNormalization", "Reshape")
def drop_defaults(op, inputs, attributes, count, name):
    """training_mode and allowzero came with opset 14; 0 is what was before."""
    fresh = {"training_mode", "allowzero"}
    if any(attributes.get(k) for k in fresh):
        return NotImplemented
    return _node(op, name, inputs, {k: v for k, v in attributes.items() if k not in fresh})


@LOWERINGS.of("ScatterElements", "ScatterND")
def scatter(op, inputs, attributes, count, name):
    """Reductions came with opsets 16 and 18."""
    if attributes.get("reduction", "none") != "none":
        return NotImplemented
    return _node(op, name, inputs, {k: v for k, v in attributes.items() if k != "reduction"})
