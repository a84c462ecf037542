"""Elements gathered by a Range that reaches below 0: onnxruntime replaces the two by a Slice.

The Slice goes from the start of the Range to its end. That is the same only where the Range
ascends from 0 or above: a Slice reads -1 as the last element, also where a descending Range ends
there, and it is empty where a Range starts below 0 and ends above. A Cast of the indices prevents
the replacement.
"""

from __future__ import annotations

import torch

from ... import dtypes
from ...ir.value import Constant, Node, Value
from .rule import Rule, Scope, changed

_OTHER_INTEGER = {torch.int64: torch.int32, torch.int32: torch.int64}


def _cast_indices(node: Node, scope: Scope) -> list[Node] | None:
    data, indices = node.inputs
    if indices is None or not _may_be_below_0(scope.maker(indices)):
        return None
    cast = Value(_OTHER_INTEGER[indices.dtype], indices.shape)
    to = {"to": dtypes.NUMBER[cast.dtype]}
    return [
        Node("Cast", "", [indices], [cast], to, node.origin),
        changed(node, inputs=[data, cast]),
    ]


def _may_be_below_0(node: Node | None) -> bool:
    if node is None or node.op != "Range" or node.domain:
        return False
    start, _, step = node.inputs
    ascends_from_0 = _is_at_least(start, 0) and _is_at_least(step, 1)
    return node.outputs[0].dtype in _OTHER_INTEGER and not ascends_from_0


def _is_at_least(value: Value | None, least: int) -> bool:
    if not isinstance(value, Constant) or not value.is_constant or value.name:
        return False
    return int(value.tensor) >= least


RULES = (
    Rule(
        "range-gather",
        ("Gather",),
        "Gather by a Range becomes a Slice, for which indices below 0 mean something else",
        _cast_indices,
    ),
)
