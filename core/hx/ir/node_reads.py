"""Values that nodes read, in their bodies too."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .value import Body, Node, Value

Place = tuple[list, int]  # a list of values, and an index


def read_instead(nodes: Sequence[Node], instead: Mapping[int, Value]) -> None:
    """Have nodes read other values; `instead` maps the id of a value to the one to read."""
    for node in nodes:
        node.inputs = [instead.get(id(value), value) for value in node.inputs]
        for body in node.bodies:
            read_instead(body.nodes, instead)
            body.outputs = [instead.get(id(value), value) for value in body.outputs]


def with_inner(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes, each followed by those of its bodies."""
    for node in nodes:
        yield node
        for body in node.bodies:
            yield from with_inner(body.nodes)


def reads(node: Node) -> Iterator[tuple[Place, Value]]:
    """Yield the values that a node and its bodies read from outside, each with its place."""
    for i, read in enumerate(node.inputs):
        if read is not None:
            yield (node.inputs, i), read
    for body in node.bodies:
        yield from reads_of(body)


def reads_of(body: Body) -> Iterator[tuple[Place, Value]]:
    """Yield the values from outside a body that are read in it, each with its place."""
    inside = {id(v) for n in body.nodes for v in n.outputs} | set(map(id, body.inputs))
    results = (((body.outputs, i), value) for i, value in enumerate(body.outputs))
    for place, value in (*itertools.chain(*map(reads, body.nodes)), *results):
        if id(value) not in inside:
            yield place, value
