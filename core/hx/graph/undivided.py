"""One divided by whole numbers, in a form that onnxruntime gets right.

It makes (1 / y) * z into z / y: the same but for rounding where the numbers are floats, and another
number where they are whole, as in the remainder of 1. It looks for a one; of minus one divided, and
turned around, it knows nothing.
"""

from __future__ import annotations

import torch

from ..tensors import dtypes
from ..tensors.values import Body, Constant, Node, Value

OPERATORS = frozenset(("Div",))


def apart(nodes: list[Node]) -> list[Node]:
    """The nodes, with another form of such divisions."""
    put: list[Node] = []
    ones: set[int] = set()  # what is cast from one, which is as well known before the run
    for node in nodes:
        for body in node.attributes.values():
            if type(body) is Body:
                body.nodes = apart(body.nodes)
        if node.domain or node.op not in ("Cast", "Div"):
            put.append(node)
            continue
        one = node.inputs[0]
        is_one = id(one) in ones or _is_one(one)
        if is_one and node.op == "Div" and not node.outputs[0].dtype.is_floating_point:
            put += _otherwise(node)
            continue
        if is_one:
            ones.update(map(id, node.outputs))
        put.append(node)
    return put


def _is_one(value: Value | None) -> bool:
    if not isinstance(value, Constant) or not value.is_constant:
        return False
    tensor = value.tensor
    return tensor.numel() == 1 and not tensor.is_meta and bool(tensor == 1)


def _otherwise(node: Node) -> list[Node]:
    (one, by), (result,) = node.inputs, node.outputs
    assert one is not None
    if one.dtype.is_signed:
        minus, divided = Value(one.dtype, one.shape), Value(result.dtype, result.shape)
        return [
            Node("Neg", "", [one], [minus], {}, node.origin),
            Node("Div", "", [minus, by], [divided], {}, node.origin),
            Node("Neg", "", [divided], [result], {}, node.origin),
        ]
    same = Value(torch.bool, result.shape)
    kind = {"to": dtypes.NUMBER[result.dtype]}
    return [
        Node("Equal", "", [one, by], [same], {}, node.origin),
        Node("Cast", "", [same], [result], kind, node.origin),
    ]
