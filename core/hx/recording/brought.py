"""What a dry run knows of values that leave the graph through NumPy and come back: whether another
run of the model would bring back others.

Then no export of it is right: what computes them by itself needs a converter, and is told as what
else lacks one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..errors import is_of_the_world
from ..proof.cases.variations import fresh
from ..report import DETOURS, Missing
from ..tensors.values import Constant, Value
from . import foreign

if TYPE_CHECKING:
    from .capture import Capture


def missing(captured: Capture) -> list[Missing]:
    """The functions that bring back what follows from the inputs, and that have no converter."""
    from .capture import capture

    left = [each for each in captured.recording.escapes.values() if each.kind in DETOURS]
    if not captured.recording.brought or not left or captured.prepared.hollow:
        return []
    tensors = fresh(captured.prepared.tensors, seed=1)
    prepared = dataclasses.replace(captured.prepared, tensors=tensors)
    try:
        other = capture(prepared, captured.registry, captured.opset, captured.wanted)
    except Exception as problem:  # the model's own, or ours: only the first recording has to work
        if is_of_the_world(problem):
            raise
        return []
    brought, again = captured.recording.brought, other.recording.brought
    apart = [where for (where, x), (_, y) in zip(brought, again, strict=False) if not _alike(x, y)]
    same = _all_alike(list(_constants(captured)), list(_constants(other)))
    other.recording.let_go()
    if same or not (apart or len(brought) != len(again)):
        return []
    places = apart or [where for where, _ in brought]
    found: dict[str, Missing] = {}
    for where in dict.fromkeys(places):
        through = next((each.through for each in left if each.where == where), None)
        target = foreign.target_at(through or where)
        if target:
            detail = "what it gives follows from inputs, and is computed where nobody sees it"
            found.setdefault(target, Missing(target, detail)).add(where, [])
    return list(found.values())


def _constants(captured: Capture) -> Iterator[torch.Tensor]:
    """Those without a name that the outputs are computed from, in an order that another recording
    of the same calls has, too."""
    waiting: list[Any] = [value for _, value in captured.outputs]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Constant) and not value.name:
            yield value.tensor
        if value.node is not None:
            waiting += value.node.inputs
        waiting += value.parts or ()


def _all_alike(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(_alike, some, others))


def _alike(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors hold the same, where a NaN is like another."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    return bool(((x == y) | ((x != x) & (y != y))).all())
