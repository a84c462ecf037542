"""Products of transposed matrices: onnxruntime fuses Transpose with the MatMul behind it.

The fused operator

1. is wrong where the other factor is a vector. So the vector becomes a matrix of one column.
2. ends the process where the Transpose moved the first axis into the matrix, and that axis has no
   elements, or a Cast stands between the two (onnxruntime puts one around products of halves).
3. leaves the result of a batch uninitialized where the reduced axis has no elements. So does MatMul
   itself beside a vector.

An axis that is inserted before the Transpose and removed behind it prevents the fusion. That costs
a copy, so it is done only behind casts, and where a size may be 0 although no input's is, such as
the number of elements that a mask selects.
"""

from __future__ import annotations

import torch

from ...ir import shapes
from ...ir.value import Constant, Node, Value
from .rule import Rule, Scope

HALVES = (torch.float16, torch.bfloat16)


def _unfused_transpose(node: Node, scope: Scope) -> list[Node] | None:
    """A Transpose with a leading axis of size 1, which is removed again behind it."""
    if id(node) not in scope.fact(_fused_wrongly):
        return None
    source, result = node.inputs[0], node.outputs[0]
    before, behind = _with_axis(source, front=True), _with_axis(result, front=True)
    perm = [0, *(p + 1 for p in node.attributes["perm"])]
    return [
        Node("Unsqueeze", "", [source, _axis(0)], [before], {}, node.origin),
        Node("Transpose", "", [before], [behind], {"perm": perm}, node.origin),
        Node("Squeeze", "", [behind, _axis(0)], [result], {}, node.origin),
    ]


def _fused_wrongly(scope: Scope) -> set[int]:
    """The ids of the Transposes that must not be fused with a product behind them."""
    found: set[int] = set()
    for node in scope.nodes:
        if node.op == "MatMul" and not node.domain:
            for factor in node.inputs:
                turn = _transpose_of(factor, scope)
                if turn is not None and _is_wrong(turn, factor, node):
                    found.add(id(turn))
    return found


def _is_wrong(turn: Node, factor: Value | None, product: Node) -> bool:
    sizes, perm = turn.outputs[0].shape, turn.attributes["perm"]
    if sizes is None or len(sizes) < 3:
        return False
    place = perm.index(0)  # the new place of the first axis
    moved_into_matrix = place >= len(perm) - 2
    dtype = None if factor is None else factor.dtype
    is_cast = dtype in HALVES or dtype != turn.outputs[0].dtype
    if moved_into_matrix and (is_cast or not shapes.some(sizes[place])):
        return True
    return _may_reduce_nothing(product)


def _product_with_column(node: Node, scope: Scope) -> list[Node] | None:
    """A product with a matrix of one column in place of the vector."""
    left_sizes, right_sizes = (v.shape or () if v is not None else () for v in node.inputs)
    if len(left_sizes) < 2 or len(right_sizes) != 1:
        return None
    (left, right), (result,) = node.inputs, node.outputs
    if not _may_reduce_nothing(node) and _transpose_of(left, scope) is None:
        return None
    column, product = _with_axis(right), _with_axis(result)
    return [
        Node("Unsqueeze", "", [right, _axis(1)], [column], {}, node.origin),
        Node("MatMul", "", [left, column], [product], {}, node.origin),
        Node("Squeeze", "", [product, _axis(-1)], [result], {}, node.origin),
    ]


def _transpose_of(value: Value | None, scope: Scope) -> Node | None:
    """The Transpose that makes a value, which may be scaled or cast behind it."""
    node = scope.maker(value)
    while node is not None and not node.domain and node.op in ("Mul", "Div", "Cast"):
        tensors = [v for v in node.inputs if v is not None and not _is_number(v)]
        node = scope.maker(tensors[0]) if len(tensors) == 1 else None
    is_turn = node is not None and node.op == "Transpose" and "perm" in node.attributes
    return node if is_turn else None


def _is_number(value: Value) -> bool:
    shape = value.shape
    if not shape:
        return shape is not None
    # A dynamic size is not compared: that would be a question to the model.
    return len(shape) == 1 and type(shape[0]) is int and shape[0] == 1


def _may_reduce_nothing(node: Node) -> bool:
    left = node.inputs[0]
    return left is not None and left.shape not in (None, ()) and not shapes.some(left.size(-1))


def _axis(number: int) -> Constant:
    return Constant(torch.tensor([number]))


def _with_axis(value: Value | None, front: bool = False) -> Value:
    assert value is not None
    sizes = value.shape
    return Value(value.dtype, sizes and ((1, *sizes) if front else (*sizes, 1)))


RULES = (
    Rule(
        "transposed-product",
        ("Transpose",),
        "Transpose fused with MatMul fails behind casts and on empty axes",
        _unfused_transpose,
    ),
    Rule(
        "product-with-vector",
        ("MatMul",),
        "MatMul with a vector is wrong behind a Transpose and over an empty axis",
        _product_with_column,
    ),
)
