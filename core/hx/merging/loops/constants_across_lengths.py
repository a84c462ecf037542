"""Constants of another recording, with another number of rounds, to find those that stay.

A number that falls with every round counts from its first number or to its last one: 100, 99, 98
starts at 100, and 10, 9, 8 ends at 0, for any number of rounds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import torch

from ...budget import BUDGET
from ...ir.value import Constant, Node
from ...recording.rounds.loop_lengths import nodes_key
from ...tensor_bytes import same_bits


class Before:
    """Constants that the nodes of a recording read, by the kind of node."""

    def __init__(self, nodes: list[Node]) -> None:
        self._read: dict[Any, list[list[torch.Tensor | None]]] = {}
        self._beside: list[Node] = []  # nodes that were compared last
        self._places: dict[Any, list[int]] = {}  # kind of node -> its places in `_beside`
        for node in nodes:
            if any(isinstance(value, Constant) for value in node.inputs):
                numbers = [_number(value) for value in node.inputs]
                self._read.setdefault(nodes_key(node), []).append(numbers)

    def ends(
        self, nodes: list[Node], start: int, period: int, end: int, at: int, slot: int
    ) -> tuple[torch.Tensor | None, torch.Tensor | None] | None:
        """Return the constants that a node of the rounds read there in the first round and in the
        last.
        """
        key = nodes_key(nodes[start + at])
        there = self._read.get(key, [])
        places = self._places_in(nodes)[key]
        ahead = bisect_left(places, start)
        behind = len(places) - bisect_left(places, end)
        each = bisect_left(places, start + period) - ahead
        mine = bisect_left(places, start + at) - ahead
        if max(ahead, behind) > BUDGET.rounds.unlike * each or len(there) < ahead + each + behind:
            return None  # nested rounds, or no rounds
        return there[ahead + mine][slot], there[len(there) - behind - each + mine][slot]

    def _places_in(self, nodes: list[Node]) -> dict[Any, list[int]]:
        if self._beside is not nodes:
            self._beside, self._places = nodes, {}
            for at, node in enumerate(nodes):
                self._places.setdefault(nodes_key(node), []).append(at)
        return self._places


def _number(value: Any) -> torch.Tensor | None:
    return (
        value.tensor
        if isinstance(value, Constant) and value.tensor.numel() <= BUDGET.elements.counter
        else None
    )


def same(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    return a is not None and same_bits(a, b)
