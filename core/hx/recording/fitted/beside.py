"""Several recordings of one model, node by node: what differs is numbers, and sizes that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...sizes import dims
from ...tensors import memory
from ...tensors.values import Absent, Body, Constant, Node, Origin, Value
from ..capture import Capture
from ..rolled.rolling import needed_of


class Unlike(Exception):
    """They differ in more than numbers."""


@dataclass
class Differing:
    """A constant of the first recording, what it is in each, and what first reads it."""

    value: Constant
    tensors: list[torch.Tensor]
    origin: Origin | None

    @property
    def where(self) -> str:
        origin = self.origin
        return f"{origin.file}:{origin.line}" if origin is not None and origin.file else ""


class Beside:
    """The values of the first recording, each with those that stand in its place in the others."""

    def __init__(self, all_of: Sequence[Capture]) -> None:
        self.differing: dict[int, Differing] = {}
        self.made: list[tuple[Value, list[Value]]] = []  # results of nodes
        self._origin: Origin | None = None
        self._stands: list[dict[int, Value]] = [{} for _ in all_of]
        for values in _together(capture.inputs for capture in all_of):
            self._meet([value for _, value in values])
        results = [[value for _, value in capture.outputs] for capture in all_of]
        self._nodes(
            [_of(capture.recording.builder.nodes, ends) for capture, ends in zip(all_of, results)]
        )
        for values in _together(results):
            self._same(values)

    def _nodes(self, all_of: Sequence[Sequence[Node]]) -> None:
        for nodes in _together(all_of):
            first = nodes[0]
            for other in nodes[1:]:
                if (first.op, first.domain) != (other.op, other.domain):
                    raise Unlike
            self._origin = first.origin
            for values in _together(node.inputs for node in nodes):
                self._same(values)
            if any(first.attributes.keys() != other.attributes.keys() for other in nodes):
                raise Unlike
            for name in first.attributes:
                self._attributes([node.attributes[name] for node in nodes])
            for values in _together(node.outputs for node in nodes):
                self._meet(values)
                self.made.append((values[0], list(values[1:])))

    def _attributes(self, given: Sequence[Any]) -> None:
        first = given[0]
        if isinstance(first, Body):
            for values in _together(body.inputs for body in given):
                self._meet(values)
            self._nodes([body.nodes for body in given])
            for values in _together(body.outputs for body in given):
                self._same(values)
        elif isinstance(first, torch.Tensor):
            if not all(_equal(first, other) for other in given[1:]):
                raise Unlike
        elif any(other != first for other in given[1:]):
            raise Unlike

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
            raise Unlike

    def _constant(self, first: Constant, values: Sequence[Value | None]) -> None:
        tensors = []
        for value in values:
            if not isinstance(value, Constant) or isinstance(value, Absent):
                if value is first:  # a weight that is elsewhere
                    continue
                raise Unlike
            tensors.append(value.tensor)
        if tensors and not all(_equal(tensors[0], other) for other in tensors[1:]):
            if first.name or first.sparse is not None or first.parts is not None:
                raise Unlike
            self.differing.setdefault(id(first), Differing(first, tensors, self._origin))


def _together(all_of: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """What stands at one place in each; as many in all of them."""
    listed = [list(each) for each in all_of]
    if len({len(each) for each in listed}) > 1:
        raise Unlike
    return zip(*listed)


def _of(nodes: list[Node], ends: list[Value]) -> list[Node]:
    needed = needed_of(nodes, ends)
    return [node for node in nodes if node in needed]


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a is b or (a.dtype == b.dtype and memory.region(a) == memory.region(b) is not None):
        return True
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def sizes_of(value: Value) -> list[int] | None:
    return None if value.shape is None else [*map(dims.plain, value.shape)]
