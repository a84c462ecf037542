"""Activation functions."""

from __future__ import annotations

from hx import case, converter

from ._common import is_value, one_axis, scalars_too
from ._halves import rounded_once

ONE = [case("float32[n,3]")]


@converter("torch.relu", "torch.nn.functional.relu", cases=[*ONE, case("int64[n,3]<9")])
def relu(op, input, inplace=False):
    if input.dtype.is_floating_point:
        return op.Relu(input)
    return op.Max(input, op.constant(0, input.dtype))  # onnxruntime's Relu takes floats only


@converter("torch.nn.functional.relu6", "torch.ops.aten.relu6", cases=ONE)
def relu6(op, input, inplace=False):
    return op.Clip(input, 0, 6)


@converter("torch.nn.functional.hardtanh", "torch.ops.aten.hardtanh", cases=ONE)
def hardtanh(op, input, min_val=-1.0, max_val=1.0, inplace=False):
    return op.Clip(input, op.cast(min_val, input.dtype), op.cast(max_val, input.dtype))


@converter("torch.nn.functional.gelu", cases=[*ONE, case("float32[n,3]", approximate="tanh")])
def gelu(op, input, *, approximate="none"):
    return op.Gelu(input, approximate=approximate)


@converter("torch.nn.functional.silu", "torch.ops.aten.silu", cases=ONE)
def silu(op, input, inplace=False):
    return op.Mul(input, op.Sigmoid(input))


@converter("torch.nn.functional.mish", "torch.ops.aten.mish", cases=ONE)
def mish(op, input, inplace=False):
    return op.Mish(input)


@converter("torch.nn.functional.hardswish", "torch.ops.aten.hardswish", cases=ONE)
def hardswish(op, input, inplace=False):
    return op.HardSwish(input)


@converter("torch.nn.functional.hardsigmoid", "torch.ops.aten.hardsigmoid", cases=ONE)
def hardsigmoid(op, input, inplace=False):
    return op.HardSigmoid(input, alpha=1 / 6, beta=0.5)


@converter("torch.nn.functional.leaky_relu", "torch.ops.aten.leaky_relu", cases=ONE)
def leaky_relu(op, input, negative_slope=0.01, inplace=False):
    if is_value(negative_slope):
        return op.PRelu(input, op.cast(negative_slope, input.dtype))
    return op.LeakyRelu(input, alpha=negative_slope)


@converter("torch.nn.functional.elu", cases=ONE)
def elu(op, input, alpha=1.0, inplace=False):
    if is_value(alpha):
        return op.Where(op.Greater(input, 0), input, op.Mul(op.Elu(input), alpha))
    return op.Elu(input, alpha=alpha)


@converter("torch.ops.aten.elu", cases=[*ONE, case("float32[n,3]", 1.5, 1.2, 0.7)])
@rounded_once
def scaled_elu(op, self, alpha=1, scale=1, input_scale=1):
    if input_scale == 1:
        y = op.Elu(self, alpha=float(alpha))
        return y if scale == 1 else op.Mul(y, scale)
    below = op.Elu(op.Mul(self, input_scale), alpha=float(alpha))
    return op.Mul(op.Where(op.Greater(self, 0), self, below), scale)


@converter("torch.selu", "torch.nn.functional.selu", cases=ONE)
def selu(op, input, inplace=False):
    return op.Selu(input)


@converter("torch.nn.functional.softplus", cases=ONE)
@rounded_once
def softplus(op, input, beta=1, threshold=20):
    scaled = input if op.same(beta, 1) else op.Mul(input, beta)
    soft = op.Softplus(scaled)
    soft = soft if op.same(beta, 1) else op.Div(soft, beta)
    if threshold >= 20:  # then both give the same number
        return soft
    return op.Where(op.Greater(scaled, op.constant(threshold, input.dtype)), input, soft)


@converter("torch.prelu", cases=[case("float32[n,3]", "float32[1]")])
def prelu(op, input, weight):
    if weight.numel() != 1 and input.rank > 2:
        weight = op.Unsqueeze(weight, list(range(1, input.rank - 1)))
    return op.PRelu(input, weight if input.rank else op.Reshape(weight, []))


@converter("torch.ops.aten._prelu_kernel", cases=[case("float32[n,3,4]", "float32[1,3,1]")])
def prelu_kernel(op, self, weight):
    """Apply PReLU with weights that have the rank of the input."""
    return op.PRelu(self, weight)


@converter("torch.ops.aten._softmax",
           cases=[case("float32[n,3]", 1, False), case("float32[n,3]", 0, False)])  # fmt: skip
@converter("torch.softmax",
           cases=[case("float32[n,3]", 1), case("float32[n,3]", 0)])  # fmt: skip
@scalars_too
def softmax(op, input, dim, dtype=None):
    return op.Softmax(op.cast(input, op.result.dtype), axis=dim)


@converter("torch.nn.functional.softmax", cases=[case("float32[n,3]", dim=1)])
def softmax_functional(op, input, dim=None, _stacklevel=3, dtype=None):
    return NotImplemented if dim is None else softmax(op, input, dim)


@converter("torch.ops.aten._log_softmax", cases=[case("float32[n,3]", 1, False)])
@converter("torch.log_softmax", "torch.special.log_softmax", cases=[case("float32[n,3]", 1)])
@scalars_too
def log_softmax(op, input, dim, dtype=None):
    return op.LogSoftmax(op.cast(input, op.result.dtype), axis=dim)


@converter("torch.nn.functional.glu", "torch.ops.aten.glu", cases=[case("float32[n,4]")])
@rounded_once
def glu(op, input, dim=-1):
    a, b = op.Split(input, axis=dim, num_outputs=2, outputs=2)
    return op.Mul(a, op.Sigmoid(b))


@converter("torch.nn.functional.logsigmoid", cases=ONE)
@rounded_once
def logsigmoid(op, input):
    return op.Neg(op.Softplus(op.Neg(input)))


@converter("torch.ops.aten._safe_softmax", cases=[case("float32[n,3]", 1)])
@rounded_once
def safe_softmax(op, self, dim, dtype=None):
    """Compute softmax, with zeros instead of NaN for a row of -inf alone."""
    x = op.cast(self, op.result.dtype)
    axis = one_axis(dim, x.rank)
    none = op.Equal(op.ReduceMax(x, [axis], keepdims=1), float("-inf"))
    return op.Where(none, 0, op.Softmax(x, axis=axis))


@converter("torch.celu", "torch.nn.functional.celu", cases=[case("float32[n,3]", alpha=0.5)])
def celu(op, input, alpha=1.0, inplace=False):
    return op.Celu(input, alpha=alpha)


@converter(
    "torch.threshold", "torch.nn.functional.threshold", cases=[case("float32[n,3]", 0.1, 20.0)]
)
def threshold(op, input, threshold, value, inplace=False):
    below = op.LessOrEqual(input, op.cast(threshold, input.dtype))  # False for NaN
    return op.Where(below, op.cast(value, input.dtype), input)


@converter("torch.nn.functional.softshrink", "torch.ops.aten.softshrink", cases=ONE)
def softshrink(op, input, lambd=0.5):
    return op.Sub(input, op.Clip(input, -lambd, lambd))


@converter("torch.nn.functional.hardshrink", "torch.ops.aten.hardshrink", cases=ONE)
def hardshrink(op, input, lambd=0.5):
    # Shrink makes 0 of NaN.
    return op.Where(op.LessOrEqual(op.Abs(input), lambd), 0, input)


@converter("torch.rrelu", "torch.nn.functional.rrelu", cases=ONE)
def rrelu(op, input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """Apply RReLU; outside of training, the slope is the middle of its range."""
    return NotImplemented if training else op.LeakyRelu(input, alpha=(lower + upper) / 2)
