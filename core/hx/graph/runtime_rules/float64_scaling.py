"""Products of float64 matrices with one number: onnxruntime rounds the number to float32.

It fuses MatMul with a multiplication of its result, or of one of its factors, by one number. The
fused operator keeps that number in float32, so half of the digits are lost. A change of sign
between the two, which is exact, prevents the fusion.
"""

from __future__ import annotations

from typing import TypeGuard

import torch

from ...ir.value import Constant, Node, Value
from .rule import Rule, Scope, changed


def _separate(node: Node, scope: Scope) -> list[Node] | None:
    place = _rounded_number(node)
    if place is None:
        return None
    number, scaled, result = node.inputs[place], node.inputs[1 - place], node.outputs[0]
    assert isinstance(number, Constant) and scaled is not None
    inputs: list[Value | None] = [scaled, scaled]
    inputs[place] = Constant(-number.tensor)
    maker = scope.fact(_products).get(id(scaled))
    if maker is not None:
        inputs[1 - place] = negative = scaled.like()
        minus = Node("Neg", "", [scaled], [negative], {}, node.origin)
        return [minus, changed(node, inputs=inputs)]
    if _feeds_product(result, scope):
        negative = result.like()
        minus = Node("Neg", "", [negative], [result], {}, node.origin)
        return [changed(node, inputs=inputs, outputs=[negative]), minus]
    return None


def _products(scope: Scope) -> dict[int, Node]:
    return {id(node.outputs[0]): node for node in scope.nodes if node.op == "MatMul"}


def _feeds_product(value: Value, scope: Scope) -> bool:
    """Return True if a MatMul reads a value, or its transpose, which is fused as well."""
    return any(
        node.op == "MatMul" or (node.op == "Transpose" and _feeds_product(node.outputs[0], scope))
        for node in scope.readers(value)
    )


def _rounded_number(node: Node) -> int | None:
    """The index of the input that is one number, if it is a factor or divisor that float32 rounds."""
    for place, value in enumerate(node.inputs):
        if _is_number(value) and (place or node.op == "Mul"):
            factor = value.tensor if node.op == "Mul" else 1 / value.tensor
            return place if factor.float().double().ne(factor).item() else None
    return None


def _is_number(value: Value | None) -> TypeGuard[Constant]:
    if not isinstance(value, Constant) or not value.is_constant or value.name:
        return False
    return value.dtype == torch.float64 and value.tensor.numel() == 1


RULES = (
    Rule(
        "float64-scaling",
        ("Mul", "Div"),
        "MatMul of float64 fused with a multiplication by one number keeps it in float32",
        _separate,
    ),
)
