"""One result per element, or the shape of the first input."""

from __future__ import annotations

from ..shapes import axis_of, broadcast, shape_of
from ._rule import rule

_UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh CumSum Elu
Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax
Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt
Swish Tan Tanh ThresholdedRelu Trilu LpNormalization MeanVarianceNormalization LRN Bernoulli
RandomNormalLike RandomUniformLike InstanceNormalization GroupNormalization BatchNormalization
ScatterElements ScatterND QuantizeLinear DequantizeLinear ReverseSequence RotaryEmbedding
RMSNormalization CumProd EyeLike""".split()


@rule(*_UNARY)
def _like_first(inputs, attributes, count):
    return [shape_of(inputs[0])] + [None] * (count - 1)


@rule("LayerNormalization")
def _layer_norm(inputs, attributes, count):
    x = shape_of(inputs[0])
    axis = axis_of(attributes.get("axis", -1), len(x))
    reduced = x[:axis] + (1,) * (len(x) - axis)
    return [x, reduced, reduced][:count]


BROADCAST = tuple(
    """Add Sub Mul Div Pow Mod Max Min Mean Sum Equal Greater GreaterOrEqual Less
LessOrEqual And Or Xor BitShift BitwiseAnd BitwiseOr BitwiseXor Where PRelu""".split()
)


@rule(*BROADCAST)
def _broadcast(inputs, attributes, count):
    return [broadcast(*map(shape_of, inputs))]
