"""Sides that no data are known to lead to, recorded on data that do not: is a number of these in them?

What is read there and comes back as a plain number is always wrong behind that question. It shows
where the same way is recorded once more on other data.
"""

from __future__ import annotations

import dataclasses
from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import Baked, is_of_the_world
from ...graph.graph import same_bits
from ...report import Escape
from ...tensors.values import Body, Constant, Node
from ..capture import Capture, capture
from .rows import Row, answers_of, nodes_of, row_of
from .told import is_lost

TIMES = 1000


def require_unbaked(
    recordings: Iterable[tuple[Capture, Row]], others: Sequence[dict[str, torch.Tensor]]
) -> None:
    """That no side has numbers of data that do not lead there."""
    for captured, row in recordings:
        found = _baked(captured, row, others)
        if found is not None:
            raise Baked(
                "a number of data that do not lead there would stay on one side of the branch",
                where=found.where,
                why=str(found),
            )


def _baked(captured: Capture, row: Row, others: Sequence[dict[str, torch.Tensor]]) -> Escape | None:
    """What left a recording of such a side, if there are other numbers in it on other data."""
    if not captured.prepared.forced:
        return None
    lost = [each for each in captured.recording.escapes.values() if is_lost(each)]
    for tensors in (*others, _far(captured.prepared.tensors)) if lost else ():
        prepared = dataclasses.replace(captured.prepared, tensors=tensors)
        try:
            again = capture(prepared, captured.registry, captured.opset, captured.wanted)
        except Exception as problem:  # the model's own, which need not take these there
            if is_of_the_world(problem):
                raise
            continue
        alike = answers_of(again) != answers_of(captured) or _alike(
            [*nodes_of(row.items)], [*nodes_of(row_of(again).items)]
        )
        again.recording.let_go()
        if not alike:
            return lost[0]
    return None


def _far(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same numbers, but far larger."""
    return {key: t * TIMES if t.is_floating_point() else t for key, t in inputs.items()}


def _alike(some: list[Node], others: list[Node]) -> bool:
    """Whether they compute the same, with the same numbers."""
    return len(some) == len(others) and all(map(_same, some, others))


def _same(a: Node, b: Node) -> bool:
    if (a.op, a.domain, len(a.inputs)) != (b.op, b.domain, len(b.inputs)):
        return False
    if a.attributes.keys() != b.attributes.keys():
        return False
    told = ((a.attributes[key], b.attributes[key]) for key in a.attributes)
    return all(map(_equal, a.inputs, b.inputs)) and all(_equal(x, y) for x, y in told)


def _equal(a: Any, b: Any) -> bool:
    """Of values that are computed, the nodes say what they are."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return (a.name == b.name != "") or _equal(a.tensor, b.tensor)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and same_bits(a, b)
    if isinstance(a, Body) and isinstance(b, Body):
        return _alike(a.nodes, b.nodes)
    if isinstance(a, (int, float, str, list, tuple)):
        return repr(a) == repr(b)
    return isinstance(a, Constant) is isinstance(b, Constant)
