"""Products of matrices in a form that onnxruntime gets right.

It takes a Transpose and the MatMul behind it for one operator of its own. That one is wrong beside
a vector; it ends the process where the Transpose moved the first axis into the matrix, and that has
no elements, or a cast stands between the two (as onnxruntime puts one around products of halves);
and where there is nothing to add up, it leaves the result of a batch as it found the memory. So
does MatMul itself beside a vector, which is a matrix of one column here. An axis that is put in
before the Transpose and taken out behind it keeps it apart. That costs a copy: it is done for
casts, and where a size may be 0 although no input's is, as of what a mask picks.
"""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Mapping

import torch

from ..sizes import shapes
from ..tensors.values import Body, Constant, Node, Value

OPERATORS = frozenset(("MatMul",))
HALVES = (torch.float16, torch.bfloat16)
Makers = Mapping[int, Node]  # the id of a value -> the node that makes it


def apart(nodes: list[Node], outer: Makers | None = None) -> list[Node]:
    """The nodes, with axes put in and taken out where products may be empty."""
    makers = {**(outer or {}), **{id(output): node for node in nodes for output in node.outputs}}
    turned: set[int] = set()
    for node in nodes:
        for body in node.attributes.values():
            if type(body) is Body:
                body.nodes = apart(body.nodes, makers)
        if node.op == "MatMul" and not node.domain:
            turned.update(id(each) for each in _turned(node, makers))
    put: list[Node] = []
    for node in nodes:
        if id(node) in turned:
            put += _around(node)
        elif _by_a_vector(node) and (
            _may_add_nothing(node) or _transpose(node.inputs[0], makers) is not None
        ):
            put += _as_a_column(node)
        else:
            put.append(node)
    return put


def _turned(node: Node, makers: Makers) -> list[Node]:
    """What turns the factors of a product, where it may not be joined with that."""
    found = []
    for factor in node.inputs:
        turn = _transpose(factor, makers)
        if turn is None or turn.outputs[0].shape is None or len(turn.outputs[0].shape) < 3:
            continue
        sizes, perm = turn.outputs[0].shape, turn.attributes["perm"]
        place = perm.index(0)  # where the first axis went
        moved = place >= len(perm) - 2
        dtype = None if factor is None else factor.dtype
        cast = dtype in HALVES or dtype != turn.outputs[0].dtype
        if (moved and (cast or not shapes.some(sizes[place]))) or _may_add_nothing(node):
            found.append(turn)
    return found


def _transpose(value: Value | None, makers: Makers) -> Node | None:
    """The Transpose that makes a value, whose numbers may be scaled or cast on the way."""
    node = makers.get(id(value))
    while node is not None and not node.domain and node.op in ("Mul", "Div", "Cast"):
        tensors = [v for v in node.inputs if v is not None and not _is_number(v)]
        node = makers.get(id(tensors[0])) if len(tensors) == 1 else None
    is_one = node is not None and node.op == "Transpose" and "perm" in node.attributes
    return node if is_one else None


def _is_number(value: Value) -> bool:
    shape = value.shape
    if not shape:
        return shape is not None
    return len(shape) == 1 and type(shape[0]) is int and shape[0] == 1  # not asked of a size


def _may_add_nothing(node: Node) -> bool:
    left = node.inputs[0]
    return left is not None and left.shape not in (None, ()) and not shapes.some(left.size(-1))


def _by_a_vector(node: Node) -> bool:
    if node.op != "MatMul" or node.domain:
        return False
    left, right = (v.shape or () if v is not None else () for v in node.inputs)
    return len(left) > 1 and len(right) == 1


def _axis(number: int) -> Constant:
    return Constant(torch.tensor([number]))


def _around(node: Node) -> list[Node]:
    """A Transpose with an axis in front of the others, which is gone again behind it."""
    source, result = node.inputs[0], node.outputs[0]
    before, behind = _longer(source, front=True), _longer(result, front=True)
    perm = [0, *(p + 1 for p in node.attributes["perm"])]
    return [
        Node("Unsqueeze", "", [source, _axis(0)], [before], {}, node.origin),
        Node("Transpose", "", [before], [behind], {"perm": perm}, node.origin),
        Node("Squeeze", "", [behind, _axis(0)], [result], {}, node.origin),
    ]


def _as_a_column(node: Node) -> list[Node]:
    """A product with a matrix of one column in place of the vector."""
    (left, right), (result,) = node.inputs, node.outputs
    column, product = _longer(right), _longer(result)
    return [
        Node("Unsqueeze", "", [right, _axis(1)], [column], {}, node.origin),
        Node("MatMul", "", [left, column], [product], {}, node.origin),
        Node("Squeeze", "", [product, _axis(-1)], [result], {}, node.origin),
    ]


def _longer(value: Value | None, front: bool = False) -> Value:
    assert value is not None
    sizes = value.shape
    return Value(value.dtype, sizes and ((1, *sizes) if front else (*sizes, 1)))
