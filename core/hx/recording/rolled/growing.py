"""Lists that are joined in each round, as far as they are: a cache of keys, say.

    for row in x:
        keys.append(row)
        outs.append(torch.stack(keys) @ row)

What is joined in a round is what was joined in the one before, and one more. Written so, the rounds
are alike.
"""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from collections import Counter
from typing import Any, cast

from ...tensors.values import Node, Value
from ..both.rows import reads
from .lengths import LEAST_ALIKE
from .listed import axis_of
from .sources import maps, moved_axes


def with_growing(nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """The nodes with what is joined so, and where each is now."""
    found = _Growing(nodes)
    if not found.instead:
        return nodes, [*range(len(nodes) + 1)]
    for node, read in found.instead.items():
        node.inputs[:] = read
    often = Counter(id(value) for node in nodes for _, value in reads(node))
    now: list[Node] = []
    places = []
    for node in nodes:
        places.append(len(now))
        # What moved axes of the same once more is read no longer.
        left = node.op == "Unsqueeze" and id(node.outputs[0]) in found.moved
        now += [] if left and not often[id(node.outputs[0])] else [node]
    return now, [*places, len(now)]


class _Growing:
    def __init__(self, nodes: list[Node]) -> None:
        self.moved: dict[int, Any] = {}  # by the id of what an Unsqueeze makes: of what, and where
        self.instead: dict[Node, list[Value | None]] = {}  # what they are to read
        self._alone: dict[Any, Value] = {}  # the first of those that are the same
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
        if (axis, keys) in self._joined:  # the same once more
            value, chain = self._joined[axis, keys]
            if len(chain) >= LEAST_ALIKE:
                self.instead[node] = [value]
            return
        before = self._joined.get((axis, keys[:-1]))
        if before is None and len(keys) == 2:
            before = self._alone.get(keys[0], entries[0]), []
        chain = [] if before is None else [*before[1], (node, [before[0], entries[-1]])]
        self._joined[axis, keys] = node.outputs[0], chain
        if len(chain) >= LEAST_ALIKE:
            self.instead.update(chain)
