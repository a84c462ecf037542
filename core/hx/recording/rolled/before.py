"""The numbers of another recording, with another number of rounds: which of them stayed the same.

What falls with every round falls from its first number, or to its last: 100, 99, 98 from 100,
whatever follows; 10, 9, 8 to 0, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from builtins import len  # its own: `world` hooks that of the model
from typing import Any

import torch

from ...graph.graph import same_bits
from ...tensors.values import Constant, Node
from .lengths import OFF, nodes_key

FEW = 16  # elements of a number that counts rounds


class Before:
    """By what they are and where, the numbers that the nodes of a recording read."""

    def __init__(self, nodes: list[Node]) -> None:
        self._read: dict[Any, list[list[torch.Tensor | None]]] = {}
        self._beside: list[Node] = []  # those that are compared with them
        self._places: dict[Any, list[int]] = {}  # and where each of a kind is
        for node in nodes:
            if any(isinstance(value, Constant) for value in node.inputs):
                numbers = [_number(value) for value in node.inputs]
                self._read.setdefault(nodes_key(node), []).append(numbers)

    def ends(
        self, nodes: list[Node], start: int, period: int, end: int, at: int, slot: int
    ) -> tuple[torch.Tensor | None, torch.Tensor | None] | None:
        """What the node at a place of each round read there in the first round, and in the last."""
        key = nodes_key(nodes[start + at])
        there = self._read.get(key, [])
        places = self._places_in(nodes)[key]
        ahead = bisect_left(places, start)
        behind = len(places) - bisect_left(places, end)
        each = bisect_left(places, start + period) - ahead
        mine = bisect_left(places, start + at) - ahead
        if max(ahead, behind) > OFF * each or len(there) < ahead + each + behind:
            return None  # rounds of rounds, or none
        return there[ahead + mine][slot], there[len(there) - behind - each + mine][slot]

    def _places_in(self, nodes: list[Node]) -> dict[Any, list[int]]:
        if self._beside is not nodes:
            self._beside, self._places = nodes, {}
            for at, node in enumerate(nodes):
                self._places.setdefault(nodes_key(node), []).append(at)
        return self._places


def _number(value: Any) -> torch.Tensor | None:
    return value.tensor if isinstance(value, Constant) and value.tensor.numel() <= FEW else None


def same(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    return a is not None and a.shape == b.shape and a.dtype == b.dtype and same_bits(a, b)
