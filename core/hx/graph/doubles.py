"""Products of float64 matrices and one number, in a form in which onnxruntime keeps their digits.

It takes MatMul, and the multiplication of its result or of what goes in by one number, for a single
operator of its own, which has that number in float32: half of the digits are gone. With a change of
sign between the two, which loses nothing, it leaves both alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeGuard

import torch

from ..tensors.values import Body, Constant, Node, Value

OPERATORS = frozenset(("MatMul",))


def apart(nodes: list[Node]) -> list[Node]:
    """The nodes, with a change of sign wherever onnxruntime would round a number."""
    for node in nodes:
        for body in node.attributes.values():
            if type(body) is Body:
                body.nodes = apart(body.nodes)
    if not any(node.op == "MatMul" and node.outputs[0].dtype == torch.float64 for node in nodes):
        return nodes
    made, put = _Neighbours(nodes), list[Node]()
    for node in nodes:
        place = _number_of(node)
        number = None if place is None else node.inputs[place]
        if place is None or not isinstance(number, Constant):
            put.append(node)
        elif made.of_product(node.inputs[1 - place]):
            put += [minus := _minus(node.inputs[1 - place], node), node]
            node.inputs = [minus.outputs[0]] * 2
            node.inputs[place] = Constant(-number.tensor)
        elif made.for_product(node.outputs[0]):
            result, negative = node.outputs[0], Value(torch.float64, node.outputs[0].shape)
            node.inputs[place] = Constant(-number.tensor)
            node.outputs = [negative]
            put += [node, Node("Neg", "", [negative], [result], {}, node.origin)]
        else:
            put.append(node)
    return put


class _Neighbours:
    """Which values come from a product of matrices, and which go into one."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._products: set[int] = set()
        self._read: defaultdict[int, list[Node]] = defaultdict(list)
        for node in nodes:
            if node.op == "MatMul":
                self._products.add(id(node.outputs[0]))
            for value in node.inputs:
                self._read[id(value)].append(node)

    def of_product(self, value: Value | None) -> bool:
        return id(value) in self._products

    def for_product(self, value: Value) -> bool:
        """Also transposed, which its operator does as well."""
        return any(
            node.op == "MatMul" or (node.op == "Transpose" and self.for_product(node.outputs[0]))
            for node in self._read[id(value)]
        )


def _minus(value: Value | None, node: Node) -> Node:
    assert value is not None
    return Node("Neg", "", [value], [Value(value.dtype, value.shape)], {}, node.origin)


def _number_of(node: Node) -> int | None:
    """Where a node has the one number that it multiplies by, or divides by, and that is rounded."""
    if node.op not in ("Mul", "Div") or node.domain:
        return None
    for place, value in enumerate(node.inputs):
        if _is_number(value) and (place or node.op == "Mul"):
            factor = value.tensor if node.op == "Mul" else 1 / value.tensor
            return place if factor.float().double().ne(factor).item() else None
    return None


def _is_number(value: Value | None) -> TypeGuard[Constant]:
    if not isinstance(value, Constant) or not value.is_constant or value.name:
        return False
    return value.dtype == torch.float64 and value.tensor.numel() == 1
