"""Normalization layers."""

from __future__ import annotations

import functools

from hx import case, converter
from hx.lazy import torch

from ._common import reshaped
from ._halves import rounded_once
from ._sums import are_many, reduction


def half_with_floats(convert):
    """Extend a converter for one dtype to a half with float32 weights, as autocast needs."""
    wide = rounded_once(convert)

    @functools.wraps(convert)
    def either(op, input, *args, **kwargs):
        kinds = {x.dtype for x in (*args, *kwargs.values()) if hasattr(x, "dtype")}
        return (wide if kinds - {input.dtype} else convert)(op, input, *args, **kwargs)

    return either


def _is_empty(x):
    return any(type(n) is int and n == 0 for n in x.shape)


def _filled(op, number, like, size):
    if type(size) is int:
        return op.constant([number] * size, like.dtype)
    return op.Expand(op.constant(number, like.dtype), op.sizes([size]))


WITH_STATISTICS = ("float32[n,3,4]", "float32[3]", "float32[3]", "float32[3]", "float32[3]<1")


@converter("torch.batch_norm", cases=[
    case(*WITH_STATISTICS, False, 0.1, 1e-5, True),
    case("float32[n,3,4]", None, None, None, None, True, 0.1, 1e-5, True),
    case("float32[2,c,4]", None, None, "float32[c]", "float32[c]<1", False, 0.1, 1e-5, True),
])  # fmt: skip
def batch_norm(op, input, weight, bias, running_mean, running_var, training, momentum, eps,
               cudnn_enabled=True):  # fmt: skip
    if _is_empty(input):
        return input
    if training or running_mean is None:
        return _by_own_statistics(op, input, weight, bias, eps)
    channels = running_mean.shape[0]
    # PyTorch takes float32 statistics for half inputs; ONNX has one dtype for scale and bias.
    kind = running_mean.dtype
    weight = _filled(op, 1.0, running_mean, channels) if weight is None else op.cast(weight, kind)
    bias = _filled(op, 0.0, running_mean, channels) if bias is None else op.cast(bias, kind)
    return op.BatchNormalization(input, weight, bias, running_mean, running_var, epsilon=eps)


@rounded_once
def _by_own_statistics(op, input, weight, bias, eps):
    """Normalize each channel by the mean and the variance of the whole batch."""
    y = _along(op, input, [a for a in range(input.rank) if a != 1], eps)
    return _by_channel(op, y, weight, bias)


def _along(op, x, axes, eps):
    """Normalize x by its mean and its variance along some axes."""
    centred = op.Sub(x, reduction(op, "ReduceMean", x, axes))
    variance = reduction(op, "ReduceMean", op.Mul(centred, centred), axes)
    return op.Div(centred, op.Sqrt(op.Add(variance, eps)))


def _by_channel(op, y, weight, bias):
    trailing = list(range(1, y.rank - 1))

    def laid(x):
        x = op.cast(x, y.dtype)
        return op.Unsqueeze(x, trailing) if trailing else x

    y = y if weight is None else op.Mul(y, laid(weight))
    return y if bias is None else op.Add(y, laid(bias))


@converter("torch.layer_norm", "torch.nn.functional.layer_norm",
           cases=[case("float32[n,5,4]", [4], "float32[4]", "float32[4]")])  # fmt: skip
@half_with_floats
def layer_norm(op, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    if are_many(op, input.dtype, normalized_shape):
        axes = list(range(input.rank - len(normalized_shape), input.rank))
        y = _along(op, input, axes, eps)
        y = y if weight is None else op.Mul(y, weight)
        return y if bias is None else op.Add(y, bias)
    if weight is None:
        sized = any(type(n) is not int for n in normalized_shape)
        weight = (op.Expand(op.constant(1, input.dtype), op.sizes(normalized_shape)) if sized
                  else op.constant(torch.ones(tuple(normalized_shape), dtype=input.dtype)))  # fmt: skip
    return op.LayerNormalization(input, weight, bias, axis=-len(normalized_shape), epsilon=eps)


@converter("torch.group_norm", "torch.nn.functional.group_norm",
           cases=[case("float32[n,4,5]", 2)])  # fmt: skip
@rounded_once
def group_norm(op, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c, *rest = input.shape
    if _is_empty(input):
        return input
    group = [c // num_groups, *rest]
    if are_many(op, input.dtype, group):
        x = op.Reshape(input, op.sizes([n, num_groups, *group]))
        y = _along(op, x, list(range(2, x.rank)), eps)
    else:
        flat = op.Reshape(input, op.sizes([n, num_groups, -1]))
        one, zero = _filled(op, 1.0, input, num_groups), _filled(op, 0.0, input, num_groups)
        y = op.InstanceNormalization(flat, one, zero, epsilon=eps)
    return _by_channel(op, op.Reshape(y, op.sizes(input.shape)), weight, bias)


@converter("torch.instance_norm", cases=[
    case("float32[n,3,4]", None, None, None, None, True, 0.1, 1e-5, True),
    case("float32[2,c,4]", None, None, None, None, True, 0.1, 1e-5, True),
    case(*WITH_STATISTICS, False, 0.1, 1e-5, True),
])  # fmt: skip
def instance_norm(op, input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                  eps, cudnn_enabled=True):  # fmt: skip
    _, channels, *sizes = input.shape
    if not use_input_stats:
        return batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps)
    if running_mean is not None:
        _keep_instance_statistics(op, input, running_mean, running_var, momentum)
    if are_many(op, input.dtype, sizes):
        y = _along(op, input, list(range(2, input.rank)), eps)
        return _by_channel(op, y, weight, bias)
    weight = _filled(op, 1.0, input, channels) if weight is None else weight
    bias = _filled(op, 0.0, input, channels) if bias is None else bias
    return op.InstanceNormalization(input, weight, bias, epsilon=eps)


def _keep_instance_statistics(op, input, running_mean, running_var, momentum):
    """Update the running statistics with the mean, over the batch, of those of each image."""
    axes, count = list(range(2, input.rank)), 1
    for a in axes:
        count = input.shape[a] * count
    x = op.cast(input, running_mean.dtype)
    mean = reduction(op, "ReduceMean", x, axes)
    centred = op.Sub(x, mean)
    squares = reduction(op, "ReduceSum", op.Mul(centred, centred), axes, 0)
    variance = op.Div(squares, op.constant(max(count - 1, 1), x.dtype))
    for old, new in ((running_mean, op.Squeeze(mean, axes)), (running_var, variance)):
        new = op.ReduceMean(new, [0], keepdims=0)
        op.assign(old, op.Add(op.Mul(old, 1 - momentum), op.Mul(new, momentum)))


@converter("torch.rms_norm", cases=[case("float32[n,4]", [4])])
def rms_norm(op, input, normalized_shape, weight=None, eps=None):
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    half = input.dtype in (torch.float16, torch.bfloat16)
    x = op.cast(input, torch.float32) if half else input
    eps = _smallest(input.dtype) if eps is None else eps
    alike = weight is not None and weight.dtype == input.dtype
    if op.opset >= 23 and alike and not are_many(op, input.dtype, normalized_shape):
        return op.RMSNormalization(input, weight, axis=-len(axes), epsilon=eps)
    # Runtimes recognize the pattern by Pow and a later Div; in float64, onnxruntime's lacks eps.
    squares = op.Mul(x, x) if x.dtype == torch.float64 else op.Pow(x, 2.0)
    mean = reduction(op, "ReduceMean", squares, axes)
    y = op.Div(x, op.Sqrt(op.Add(mean, eps)))
    y = y if weight is None else op.Mul(y, op.cast(weight, y.dtype))
    return op.cast(y, input.dtype)


@functools.cache
def _smallest(dtype):
    """Return the default eps: for halves, that of float32, or in older PyTorch their own."""
    own, wide = torch.finfo(dtype).eps, torch.finfo(torch.float32).eps
    tiny = torch.full((1,), 1e-3, dtype=dtype)
    if own > wide and torch.nn.functional.rms_norm(tiny, (1,)).item() > 0.5:
        return wide
    return own


# The underlying operators, which also return intermediate results.


@converter("torch.native_layer_norm", cases=[case("float32[n,5,4]", [4], None, None, 1e-5)])
def native_layer_norm(op, input, normalized_shape, weight, bias, eps):
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    x = op.cast(input, op.result[1].dtype)
    mean = reduction(op, "ReduceMean", x, axes)
    centred = op.Sub(x, mean)
    variance = reduction(op, "ReduceMean", op.Mul(centred, centred), axes)
    scale = op.Reciprocal(op.Sqrt(op.Add(variance, eps)))
    return layer_norm(op, input, normalized_shape, weight, bias, eps), mean, scale


@converter("torch.native_group_norm",
           cases=[case("float32[3,4,5]", "float32[4]", None, 3, 4, 5, 2, 1e-5)])  # fmt: skip
def native_group_norm(op, input, weight, bias, N, C, HxW, group, eps):
    n, c, *rest = input.shape
    size = c // group
    for width in rest:
        size = width * size
    x = op.cast(reshaped(op, input, [n, group, size]), op.result[1].dtype)
    mean = reduction(op, "ReduceMean", x, [2], 0)
    centred = op.Sub(x, op.Unsqueeze(mean, [2]))
    variance = reduction(op, "ReduceMean", op.Mul(centred, centred), [2], 0)
    return (group_norm(op, input, group, weight, bias, eps), mean,
            op.Reciprocal(op.Sqrt(op.Add(variance, eps))))  # fmt: skip


@converter("torch.native_batch_norm", cases=[case(*WITH_STATISTICS, False, 0.1, 1e-5)])
def native_batch_norm(op, input, weight, bias, running_mean, running_var, training, momentum, eps):
    y, mean, scale = _normalized(op, input, weight, bias, eps) if training else (
        batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps),
        *_of_no_training(op, running_mean, running_var, eps))  # fmt: skip
    if training and running_mean is not None:
        _keep_statistics(op, input, running_mean, running_var, momentum)
    return y, mean, scale


def _of_no_training(op, mean, variance, eps):
    """Return the statistics of inference: empty ones, or values on a GPU that nobody reads."""
    if all(r.shape == (0,) for r in op.result[1:]):
        return [op.constant(torch.empty(0, dtype=r.dtype)) for r in op.result[1:]]
    scale = op.Reciprocal(op.Sqrt(op.Add(variance, eps)))
    return [op.cast(x, r.dtype) for x, r in zip((mean, scale), op.result[1:])]


def _normalized(op, input, weight, bias, eps):
    axes = [a for a in range(input.rank) if a != 1]
    x = op.cast(input, op.result[1].dtype)
    mean = reduction(op, "ReduceMean", x, axes, 0)
    variance = _mean_of_squares(op, x, mean, axes)
    y = _by_own_statistics(op, input, weight, bias, eps)
    return y, mean, op.Reciprocal(op.Sqrt(op.Add(variance, eps)))


def _mean_of_squares(op, x, mean, axes):
    trailing = list(range(1, x.rank - 1))
    centred = op.Sub(x, op.Unsqueeze(mean, trailing) if trailing else mean)
    return reduction(op, "ReduceMean", op.Mul(centred, centred), axes, 0)


def _keep_statistics(op, input, running_mean, running_var, momentum):
    """Update the buffers as training does: a share of this batch, and the rest of the old value."""
    axes = [a for a in range(input.rank) if a != 1]
    x = op.cast(input, running_mean.dtype)
    mean = reduction(op, "ReduceMean", x, axes, 0)
    variance = _mean_of_squares(op, x, mean, axes)
    count = 1
    for a in axes:
        count = input.shape[a] * count
    unbiased = op.Mul(variance, op.constant(count / max(count - 1, 1), x.dtype))
    for old, new in ((running_mean, mean), (running_var, unbiased)):
        op.assign(old, op.Add(op.Mul(old, 1 - momentum), op.Mul(new, momentum)))


@converter("torch.ops.aten._native_batch_norm_legit_no_training",
           cases=[case(*WITH_STATISTICS, 0.1, 1e-5)])  # fmt: skip
def native_batch_norm_legit_no_training(op, input, weight, bias, mean, variance, momentum, eps):
    return native_batch_norm(op, input, weight, bias, mean, variance, False, momentum, eps)


@converter("torch.ops.aten._native_batch_norm_legit",
           cases=[case(*WITH_STATISTICS, False, 0.1, 1e-5),
                  case("float32[n,3,4]", None, "float32[3]", True, 0.1, 1e-5)])  # fmt: skip
def native_batch_norm_legit(op, input, weight, bias, *rest):
    """Normalize with running statistics, or without any."""
    training, momentum, eps = rest[-3:]
    mean, variance = rest[:2] if len(rest) == 5 else (None, None)
    return native_batch_norm(op, input, weight, bias, mean, variance, training or mean is None,
                             momentum, eps)  # fmt: skip


@converter("torch.ops.aten._batch_norm_with_update",
           cases=[case(*WITH_STATISTICS, 0.1, 1e-5)])  # fmt: skip
def batch_norm_with_update(op, input, weight, bias, running_mean, running_var, momentum, eps):
    found = native_batch_norm(
        op, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return *found, op.constant(torch.empty(0, dtype=torch.uint8))


@converter("torch._weight_norm",
           cases=[case("float32[3,4]", "float32[3,1]"), case("float32[3,4,2]", "float32[1,4,1]", 1),
                  case("float32[3,4]", "float32[]", -1)])  # fmt: skip
def weight_norm(op, v, g, dim=0):
    """Scale v to the norm g, taken along all axes but one, or along all (-1)."""
    axes = [a for a in range(v.rank) if a != dim]
    return op.Mul(v, op.Div(g, op.ReduceL2(v, axes, keepdims=1 if dim >= 0 else 0)))
