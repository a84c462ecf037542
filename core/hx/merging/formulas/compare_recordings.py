"""Comparison of recordings of one model, node by node: only numbers and sizes may differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...ir.sizes import dims
from ...ir.value import Absent, Body, Constant, Node, Origin, Value
from ...recording.trace import Trace
from ...tensor_bytes import same_bits
from ..loops.write_loops import needed_of
from ..same_nodes import paired_bodies


class RecordingsDiffer(Exception):
    """Raised if the recordings differ in more than numbers."""


@dataclass
class Differing:
    """A constant of the first recording, its value in each recording, and its first reader."""

    value: Constant
    tensors: list[torch.Tensor]
    origin: Origin | None

    @property
    def where(self) -> str:
        return self.origin.where.place if self.origin is not None else ""


class Beside:
    """Map from the values of the first recording to their counterparts in the others."""

    def __init__(self, all_of: Sequence[Trace]) -> None:
        self.differing: dict[int, Differing] = {}
        self.made: list[tuple[Value, list[Value]]] = []  # results of nodes
        self._origin: Origin | None = None
        self._stands: list[dict[int, Value]] = [{} for _ in all_of]
        for values in _together(trace.inputs for trace in all_of):
            self._meet([value for _, value in values])
        results = [[value for _, value in trace.outputs] for trace in all_of]
        self._nodes([_of(trace.nodes, ends) for trace, ends in zip(all_of, results)])
        for values in _together(results):
            self._same(values)

    def _nodes(self, all_of: Sequence[Sequence[Node]]) -> None:
        for nodes in _together(all_of):
            first = nodes[0]
            bodies = [pairs for node in nodes if (pairs := paired_bodies(first, node)) is not None]
            if len(bodies) < len(nodes):
                raise RecordingsDiffer
            self._origin = first.origin
            for values in _together(node.inputs for node in nodes):
                self._same(values)
            for places in zip(*bodies):
                self._bodies([body for _, body in places])
            for values in _together(node.outputs for node in nodes):
                self._meet(values)
                self.made.append((values[0], list(values[1:])))

    def _bodies(self, given: Sequence[Body]) -> None:
        for values in _together(body.inputs for body in given):
            self._meet(values)
        self._nodes([body.nodes for body in given])
        for values in _together(body.outputs for body in given):
            self._same(values)

    def _meet(self, values: Sequence[Value]) -> None:
        for stands, value in zip(self._stands, values):
            stands[id(value)] = values[0]

    def _same(self, values: Sequence[Value | None]) -> None:
        first = values[0]
        if isinstance(first, Constant):
            self._constant(first, values)
        elif any(
            value is not first if value is None or first is None
            else stands.get(id(value)) is not first
            for stands, value in zip(self._stands, values)
        ):  # fmt: skip
            raise RecordingsDiffer

    def _constant(self, first: Constant, values: Sequence[Value | None]) -> None:
        tensors = []
        for value in values:
            if not isinstance(value, Constant) or isinstance(value, Absent):
                if value is first:  # a weight stored elsewhere
                    continue
                raise RecordingsDiffer
            tensors.append(value.tensor)
        if tensors and not all(same_bits(tensors[0], other) for other in tensors[1:]):
            if first.name or first.sparse is not None or first.parts is not None:
                raise RecordingsDiffer
            self.differing.setdefault(id(first), Differing(first, tensors, self._origin))


def _together(all_of: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield the items at each place of all sequences; raise RecordingsDiffer if the lengths differ."""
    listed = [list(each) for each in all_of]
    if len({len(each) for each in listed}) > 1:
        raise RecordingsDiffer
    return zip(*listed)


def _of(nodes: list[Node], ends: list[Value]) -> list[Node]:
    needed = needed_of(nodes, ends)
    return [node for node in nodes if node in needed]


def sizes_of(value: Value) -> list[int] | None:
    return None if value.shape is None else [*map(dims.plain, value.shape)]


def are_alike(one: Trace, other: Trace) -> bool:
    """Return True if two recordings have the same nodes, questions and lost values."""
    asked, others = (
        {key: set(escape.asked) for key, escape in each.escapes.items()} for each in (one, other)
    )
    try:
        return asked == others and not Beside([one, other]).differing
    except RecordingsDiffer:
        return False
