"""Simplifications of a node together with the nodes that compute its inputs.

1. Two Transposes become one; one that keeps the order of the axes disappears.
2. A Reshape reads from before another Reshape; one to the present shape disappears.
3. x * (1 / sqrt(v)) becomes x / sqrt(v), which runtimes recognize in a normalization.
4. Squeeze undoes Unsqueeze of the same axes, and the other way round.

`simpler(node, maker)` may change the node in place, to read from further up; a value that it
returns replaces the node's output. Nodes that nobody reads any more are dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.shapes import Unknown, elements, same_shape
from ..ir.value import Node, Value

Makers = Mapping[int, Node]  # the id of a value -> the node that makes it


def simpler(node: Node, maker: Makers) -> Value | None:
    rule = None if node.domain else _RULES.get(node.op)
    return None if rule is None else rule(node, maker)


def _made_by(value: Value | None, op: str, maker: Makers) -> Node | None:
    found = maker.get(id(value))
    return found if found is not None and found.op == op and not found.domain else None


def _transpose(node: Node, maker: Makers) -> Value | None:
    """Rule 1."""
    perm = node.attributes.get("perm")
    if perm is None:
        return None
    inner = _made_by(node.inputs[0], "Transpose", maker)
    first = None if inner is None else inner.attributes.get("perm")
    if inner is not None and first is not None and len(first) == len(perm):
        perm = [first[p] for p in perm]
        node.inputs, node.attributes = inner.inputs[:1], {**node.attributes, "perm": perm}
    source = node.inputs[0]
    whole = source is not None and source.shape is not None and len(perm) == len(source.shape)
    return source if whole and list(perm) == list(range(len(perm))) else None


def _reshape(node: Node, maker: Makers) -> Value | None:
    """Rule 2, unless the last shape keeps a size that the first one made."""
    inner = _made_by(node.inputs[0], "Reshape", maker)
    if inner is not None and _holds_before(node, inner):
        node.inputs = [inner.inputs[0], *node.inputs[1:]]
    source = node.inputs[0]
    if source is not None and same_shape(source.shape, node.outputs[0].shape):
        return source
    return None


def _holds_before(node: Node, inner: Node) -> bool:
    """Return True if a shape means the same before another Reshape, also where it has a 0."""
    if node.attributes.get("allowzero"):
        return True
    if inner.attributes.get("allowzero"):
        return False
    try:
        wanted, before = elements(node.inputs[1]), elements(inner.inputs[1])
    except Unknown:
        return False
    stays = [i for i, n in enumerate(wanted) if type(n) is int and n == 0]
    return all(i < len(before) and type(before[i]) is int and before[i] == 0 for i in stays)


def _product(node: Node, maker: Makers) -> None:
    """Rule 3."""
    for x, other in (node.inputs, reversed(node.inputs)):
        inverse = _made_by(other, "Reciprocal", maker)
        if inverse is not None and _made_by(inverse.inputs[0], "Sqrt", maker) is not None:
            node.op, node.inputs = "Div", [x, inverse.inputs[0]]
            return


def _undone(opposite: str) -> Callable[[Node, Makers], Value | None]:
    """Rule 4."""

    def rule(node: Node, maker: Makers) -> Value | None:
        inner = _made_by(node.inputs[0], opposite, maker)
        if inner is None or len(node.inputs) < 2 or len(inner.inputs) < 2:
            return None
        return inner.inputs[0] if node.inputs[1] is inner.inputs[1] else None  # equal ones are one

    return rule


_RULES: dict[str, Callable[[Node, Makers], Value | None]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Mul": _product,
    "Squeeze": _undone("Unsqueeze"),
    "Unsqueeze": _undone("Squeeze"),
}
