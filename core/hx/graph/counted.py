"""What is picked by numbers that count up or down, in a form that onnxruntime gets right.

It takes a Gather by a Range for a Slice from the start of that to its end. They are the same only
where the count goes up from 0 or above it: a Slice reads -1 as "the last one", also where a count
that goes down ends there, and is empty where it starts below 0 and ends above. A Cast between the
two keeps them apart.
"""

from __future__ import annotations

import torch

from ..tensors import dtypes
from ..tensors.values import Body, Constant, Node, Value

OPERATORS = frozenset(("Range",))
_OTHER = {torch.int64: torch.int32, torch.int32: torch.int64}


def apart(nodes: list[Node], outer: set[int] | None = None) -> list[Node]:
    """The nodes, with casts of the counts that may reach below 0."""
    low = {id(node.outputs[0]) for node in nodes if _may_be_below(node)} | (outer or set())
    put: list[Node] = []
    for node in nodes:
        for body in node.attributes.values():
            if type(body) is Body:
                body.nodes = apart(body.nodes, low)
        if node.op == "Gather" and not node.domain and id(node.inputs[1]) in low:
            count = node.inputs[1]
            assert count is not None
            cast = Value(_OTHER[count.dtype], count.shape)
            kind = {"to": dtypes.NUMBER[cast.dtype]}
            put.append(Node("Cast", "", [count], [cast], kind, node.origin))
            node.inputs = [node.inputs[0], cast]
        put.append(node)
    return put


def _may_be_below(node: Node) -> bool:
    if node.op != "Range" or node.domain or node.outputs[0].dtype not in _OTHER:
        return False
    start, _, step = node.inputs
    return not (_is_from(start, 0) and _is_from(step, 1))


def _is_from(value: Value | None, least: int) -> bool:
    """Whether a value is known, and no smaller than a number."""
    if not isinstance(value, Constant) or not value.is_constant or value.name:
        return False
    return int(value.tensor) >= least
