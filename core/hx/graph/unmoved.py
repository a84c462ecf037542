"""Images that are resized between two Transposes, in a form that onnxruntime gets right.

It moves a Transpose from before a Resize to behind it, where it meets another, and turns the sizes
that the Resize is given as well: as if there were one for each axis, also where `axes` says of
which they are; and a cubic Resize cannot resize the axes that come last then. A Reshape that
leaves all sizes as they are, and copies nothing, keeps the two apart.
"""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model

import torch

from ..tensors.values import Body, Constant, Node, Value

OPERATORS = frozenset(("Resize",))
# What no Transpose is moved through: these go by the order of the axes.
_HALTS = frozenset(("Conv", "ConvTranspose", "MatMul", "Gemm", "Reshape", "GridSample"))


def apart(nodes: list[Node]) -> list[Node]:
    """The nodes, with a Reshape behind each Resize that may come to stand after its Transpose."""
    for node in nodes:
        for body in node.attributes.values():
            if type(body) is Body:
                body.nodes = apart(body.nodes)
    if not any(node.op == "Resize" for node in nodes):
        return nodes
    behind = _reached(nodes)
    put: list[Node] = []
    for node in nodes:
        result = node.outputs[0]
        if node.op != "Resize" or id(node) not in behind or result.shape is None:
            put.append(node)
            continue
        resized = Value(result.dtype, result.shape)
        same = Constant(torch.zeros(len(result.shape), dtype=torch.int64))
        node.outputs = [resized]
        put += [node, Node("Reshape", "", [resized, same], [result], {}, node.origin)]
    return put


def _reached(nodes: list[Node]) -> set[int]:
    """The nodes that a Transpose before them could be moved through."""
    turned: set[int] = set()  # values
    reached: set[int] = set()
    for node in nodes:
        if node.op == "Transpose":
            turned.update(map(id, node.outputs))
        elif node.op not in _HALTS and any(id(value) in turned for value in node.inputs):
            reached.add(id(node))
            turned.update(map(id, node.outputs))
    return reached
