"""Images resized between two Transposes: onnxruntime moves the first Transpose behind the Resize.

It reorders the sizes of the Resize as well, as if they named every axis, even where `axes` lists
only some of them; and a cubic Resize cannot resize the last axes then. A Reshape that keeps all
sizes, and copies nothing, prevents the move.
"""

from __future__ import annotations

import torch

from ...ir.value import Constant, Node
from .rule import Rule, Scope, changed

# Operators that no Transpose is moved through, because they depend on the order of the axes.
_BARRIERS = frozenset(("Conv", "ConvTranspose", "MatMul", "Gemm", "Reshape", "GridSample"))


def _reshape_behind(node: Node, scope: Scope) -> list[Node] | None:
    result = node.outputs[0]
    if result.shape is None or id(node) not in scope.fact(_reached_by_transposes):
        return None
    resized = result.like()
    same = Constant(torch.zeros(len(result.shape), dtype=torch.int64))
    return [
        changed(node, outputs=[resized]),
        Node("Reshape", "", [resized, same], [result], {}, node.origin),
    ]


def _reached_by_transposes(scope: Scope) -> set[int]:
    """The ids of the nodes that a Transpose before them could be moved through."""
    transposed: set[int] = set()  # ids of values
    reached: set[int] = set()
    for node in scope.nodes:
        if node.op == "Transpose":
            transposed.update(map(id, node.outputs))
        elif node.op not in _BARRIERS and any(id(value) in transposed for value in node.inputs):
            reached.add(id(node))
            transposed.update(map(id, node.outputs))
    return reached


RULES = (
    Rule(
        "resize-layout",
        ("Resize",),
        "a Transpose moved behind a Resize reorders its sizes wrongly",
        _reshape_behind,
    ),
)
