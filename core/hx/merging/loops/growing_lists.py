"""Lists that are joined in each round, as far as they go: a cache of keys, for example.

    for row in x:
        keys.append(row)
        outs.append(torch.stack(keys) @ row)

Each round joins what the round before joined, and one more value. Written so, the rounds are alike.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from ...budget import BUDGET
from ...ir.node_reads import reads
from ...ir.value import Node, Value
from .collected_lists import axis_of, in_places
from .stacked_sources import maps, moved_axes


def with_growing(nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """Rewrite such joins to extend the ones before; return the nodes and their places."""
    found = _Growing(nodes)
    if not found.instead:
        return in_places([node] for node in nodes)
    for node, read in found.instead.items():
        node.inputs[:] = read
    often = Counter(id(value) for node in nodes for _, value in reads(node))

    def is_left(node: Node) -> bool:
        """Return True for a second Unsqueeze of the same value, which is no longer read."""
        moved = node.op == "Unsqueeze" and id(node.outputs[0]) in found.moved
        return moved and not often[id(node.outputs[0])]

    return in_places([] if is_left(node) else [node] for node in nodes)


class _Growing:
    def __init__(self, nodes: list[Node]) -> None:
        self.moved: dict[int, Any] = {}  # id of an Unsqueeze's output -> id of its input, axes
        self.instead: dict[Node, list[Value | None]] = {}  # new inputs of nodes
        self._alone: dict[Any, Value] = {}  # the first of several equal ones
        self._joined: dict[Any, tuple[Value, list[tuple[Node, list[Value | None]]]]] = {}
        for node in nodes:
            if node.op == "Unsqueeze" and maps(node):
                value = node.outputs[0]
                self.moved[id(value)] = id(node.inputs[0]), *moved_axes(node)
                self._alone.setdefault(self.moved[id(value)], value)
            elif node.op == "Concat" and None not in node.inputs:
                self._join(axis_of(node), cast(list[Value], node.inputs), node)

    def _join(self, axis: int, entries: list[Value], node: Node) -> None:
        keys = tuple(self.moved.get(id(value), id(value)) for value in entries)
        if (axis, keys) in self._joined:  # the same list again
            value, chain = self._joined[axis, keys]
            if len(chain) >= BUDGET.rounds.alike:
                self.instead[node] = [value]
            return
        before = self._joined.get((axis, keys[:-1]))
        if before is None and len(keys) == 2:
            before = self._alone.get(keys[0], entries[0]), []
        chain = [] if before is None else [*before[1], (node, [before[0], entries[-1]])]
        self._joined[axis, keys] = node.outputs[0], chain
        if len(chain) >= BUDGET.rounds.alike:
            self.instead.update(chain)
