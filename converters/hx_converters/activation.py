"""Activation functions."""

from __future__ import annotations

from hx import case, converter

ONE = [case("float32[n,3]")]


@converter("torch.relu", "torch.nn.functional.relu", cases=ONE)
def relu(op, input, inplace=False):
    return op.Relu(input)


@converter("torch.nn.functional.relu6", cases=ONE)
def relu6(op, input, inplace=False):
    return op.Clip(input, 0, 6)


@converter("torch.nn.functional.hardtanh", "torch.ops.aten.hardtanh", cases=ONE)
def hardtanh(op, input, min_val=-1.0, max_val=1.0, inplace=False):
    return op.Clip(input, op.constant(min_val, input.dtype), op.constant(max_val, input.dtype))


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
    return op.LeakyRelu(input, alpha=negative_slope)


@converter("torch.nn.functional.elu", "torch.ops.aten.elu", cases=ONE)
def elu(op, input, alpha=1.0, inplace=False):
    return op.Elu(input, alpha=alpha)


@converter("torch.selu", "torch.nn.functional.selu", cases=ONE)
def selu(op, input, inplace=False):
    return op.Selu(input)


@converter("torch.nn.functional.softplus", cases=ONE)
def softplus(op, input, beta=1, threshold=20):
    soft = op.Softplus(input if beta == 1 else op.Mul(input, beta))
    return soft if beta == 1 else op.Div(soft, beta)


@converter("torch.prelu", cases=[case("float32[n,3]", "float32[1]")])
def prelu(op, input, weight):
    if weight.numel() != 1 and input.rank > 2:
        weight = op.Unsqueeze(weight, list(range(1, input.rank - 1)))
    return op.PRelu(input, weight)


@converter("torch.softmax", "torch.ops.aten._softmax",
           cases=[case("float32[n,3]", 1), case("float32[n,3]", 0)])  # fmt: skip
def softmax(op, input, dim, dtype=None):
    return op.Softmax(op.cast(input, op.result.dtype), axis=dim)


@converter("torch.nn.functional.softmax", cases=[case("float32[n,3]", dim=1)])
def softmax_functional(op, input, dim=None, _stacklevel=3, dtype=None):
    return NotImplemented if dim is None else softmax(op, input, dim)


@converter("torch.log_softmax", "torch.ops.aten._log_softmax", cases=[case("float32[n,3]", 1)])
def log_softmax(op, input, dim, dtype=None):
    return op.LogSoftmax(op.cast(input, op.result.dtype), axis=dim)


@converter("torch.nn.functional.glu", cases=[case("float32[n,4]")])
def glu(op, input, dim=-1):
    a, b = op.Split(input, axis=dim, num_outputs=2, outputs=2)
    return op.Mul(a, op.Sigmoid(b))


@converter("torch.nn.functional.logsigmoid", cases=ONE)
def logsigmoid(op, input):
    return op.Neg(op.Softplus(op.Neg(input)))
