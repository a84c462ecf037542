"""Normalization layers."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch


def _filled(op, number, like, size):
    return op.constant([number] * size, like.dtype)


@converter("torch.batch_norm", "torch.ops.aten._native_batch_norm_legit_no_training", cases=[])
def batch_norm(op, input, weight, bias, running_mean, running_var, training, momentum, eps,
               cudnn_enabled=True):  # fmt: skip
    if training or running_mean is None:
        return _by_own_statistics(op, input, weight, bias, eps)
    channels = running_mean.shape[0]
    # PyTorch takes float32 statistics for half inputs; ONNX has one dtype for scale and bias.
    kind = running_mean.dtype
    weight = _filled(op, 1.0, running_mean, channels) if weight is None else op.cast(weight, kind)
    bias = _filled(op, 0.0, running_mean, channels) if bias is None else op.cast(bias, kind)
    return op.BatchNormalization(input, weight, bias, running_mean, running_var, epsilon=eps)


def _by_own_statistics(op, input, weight, bias, eps):
    """Each channel by the mean and the variance of the whole batch."""
    axes = [a for a in range(input.rank) if a != 1]
    mean = op.ReduceMean(input, axes)
    centred = op.Sub(input, mean)
    variance = op.ReduceMean(op.Mul(centred, centred), axes)
    y = op.Div(centred, op.Sqrt(op.Add(variance, eps)))
    trailing = list(range(1, input.rank - 1))

    def by_channel(x):
        x = op.cast(x, input.dtype)
        return op.Unsqueeze(x, trailing) if trailing else x

    y = y if weight is None else op.Mul(y, by_channel(weight))
    return y if bias is None else op.Add(y, by_channel(bias))


@converter("torch.layer_norm", "torch.nn.functional.layer_norm",
           cases=[case("float32[n,5,4]", [4], "float32[4]", "float32[4]")])  # fmt: skip
def layer_norm(op, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    if weight is None:
        weight = op.constant(torch.ones(tuple(normalized_shape), dtype=input.dtype))
    return op.LayerNormalization(input, weight, bias, axis=-len(normalized_shape), epsilon=eps)


@converter("torch.group_norm", "torch.nn.functional.group_norm",
           cases=[case("float32[n,4,5]", 2)])  # fmt: skip
def group_norm(op, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c, *rest = input.shape
    flat = op.Reshape(input, op.sizes([n, num_groups, -1]))
    one, zero = _filled(op, 1.0, input, num_groups), _filled(op, 0.0, input, num_groups)
    y = op.Reshape(op.InstanceNormalization(flat, one, zero, epsilon=eps), op.sizes(input.shape))
    trailing = list(range(1, 1 + len(rest)))
    if weight is not None:
        y = op.Mul(y, op.Unsqueeze(weight, trailing) if trailing else weight)
    if bias is not None:
        y = op.Add(y, op.Unsqueeze(bias, trailing) if trailing else bias)
    return y


@converter("torch.instance_norm", cases=[])
def instance_norm(op, input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                  eps, cudnn_enabled=True):  # fmt: skip
    channels = input.shape[1]
    if not use_input_stats:
        return batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps)
    weight = _filled(op, 1.0, input, channels) if weight is None else weight
    bias = _filled(op, 0.0, input, channels) if bias is None else bias
    return op.InstanceNormalization(input, weight, bias, epsilon=eps)


@converter("torch.rms_norm", cases=[case("float32[n,4]", [4])])
def rms_norm(op, input, normalized_shape, weight=None, eps=None):
    axes = list(range(-len(normalized_shape), 0))
    half = input.dtype in (torch.float16, torch.bfloat16)
    x = op.cast(input, torch.float32) if half else input
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    mean = op.ReduceMean(op.Mul(x, x), axes)
    y = op.Div(x, op.Sqrt(op.Add(mean, eps)))
    y = y if weight is None else op.Mul(y, op.cast(weight, y.dtype))
    return op.cast(y, input.dtype)
