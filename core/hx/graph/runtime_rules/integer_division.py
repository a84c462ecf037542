"""1 divided by integers: onnxruntime makes z / y of (1 / y) * z.

For floats that is the same but for rounding; for integers, as in the remainder of 1, it is not. The
optimizer recognizes the constant 1, also behind a Cast, but not a negated quotient of -1.
"""

from __future__ import annotations

import torch

from ... import dtypes
from ...ir.value import Constant, Node, Value
from .rule import Rule, Scope


def _divide_otherwise(node: Node, scope: Scope) -> list[Node] | None:
    (one, divisor), (result,) = node.inputs, node.outputs
    if one is None or result.dtype.is_floating_point or not _is_one(one, scope):
        return None
    if one.dtype.is_signed:
        minus, quotient = one.like(), result.like()
        return [
            Node("Neg", "", [one], [minus], {}, node.origin),
            Node("Div", "", [minus, divisor], [quotient], {}, node.origin),
            Node("Neg", "", [quotient], [result], {}, node.origin),
        ]
    same = Value(torch.bool, result.shape)
    to = {"to": dtypes.NUMBER[result.dtype]}
    return [
        Node("Equal", "", [one, divisor], [same], {}, node.origin),
        Node("Cast", "", [same], [result], to, node.origin),
    ]


def _is_one(value: Value | None, scope: Scope) -> bool:
    if isinstance(value, Constant):
        tensor = value.tensor
        known = value.is_constant and tensor.numel() == 1 and not tensor.is_meta
        return known and bool(tensor == 1)
    maker = scope.maker(value)
    is_cast = maker is not None and maker.op == "Cast" and not maker.domain
    return is_cast and maker is not None and _is_one(maker.inputs[0], scope)


RULES = (
    Rule(
        "integer-division",
        ("Div",),
        "(1 / y) * z becomes z / y, also for integers",
        _divide_otherwise,
    ),
)
