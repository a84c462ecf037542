"""Lengths of Python's own containers that follow from sizes: of `x.split(2)`, of a list that is filled."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...budget import BUDGET
from ...ir.sizes import dims
from ...ir.sizes.departures import leaving
from ..memory.live_tensors import Entry, Live

_CONTAINERS = (list, tuple, dict, set, collections.deque)


@dataclass(frozen=True)
class _Filled:
    """A container that rounds have filled, as many as a size says."""

    container: Any  # which keeps its id in use
    many: int  # entries
    length: Any  # the same, as a size; None if it does not follow from the rounds alone
    rounds: Any


class KnownLengths:
    """Containers of one recording whose lengths follow from sizes."""

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[Any, int, list[Entry]]] = {}  # by the id of an entry
        self._filled: dict[int, _Filled] = {}

    def cut(self, live: Live, many: Any, tensors: Sequence[torch.Tensor]) -> None:
        """Note that a call gave these tensors, as many as a size says."""
        found = [live.find(tensor) for tensor in tensors]
        entries = [entry for entry in found if entry is not None]
        if len(entries) == len(tensors) == dims.plain(many):
            for at, entry in enumerate(entries):
                self._pieces[id(entry)] = many, at, entries

    def fill(self, container: Any, length: Any, rounds: Any) -> None:
        """Note how many entries a container has behind rounds that fill it."""
        many = len(container)
        self._filled[id(container)] = _Filled(container, many, length, rounds)

    def rounds(self, container: Any) -> Any:
        """The number of rounds that have filled a container with one entry each; else None."""
        known = self._filled.get(id(container))
        if known is None or known.many != len(container) or not dims.is_dynamic(known.length):
            return None
        return known.length

    def of(self, live: Live, container: Any) -> Any:
        """The length of a container, as a size; None if it is not known to follow from one.

        It holds all pieces of a tensor, or all but the first: `first, *rest = x`.
        """
        known = self._filled.get(id(container))
        if known is not None and known.many == len(container):
            if known.length is None:
                told = f"len of what {dims.spelled(known.rounds)} rounds filled"
                leaving("len", told, *dims.goes_on(known.rounds))
            return known.length
        if type(container) not in _CONTAINERS or not self._pieces or not container:
            return None
        items = [*(container.values() if type(container) is dict else container)]
        first = self._piece(live, items[0])
        known_pieces = self._pieces.get(id(first))
        if known_pieces is None:
            return None
        many, at, entries = known_pieces
        if at == len(entries) - 1 and len(items) > 1:
            items.reverse()
            at = 0
        if at > 1 or (at == 1 and len(entries) < BUDGET.rounds.recorded):
            return None  # the last few rows may be as few in every run
        rest = entries[at:]
        if len(items) == len(rest) and all(
            self._piece(live, item) is entry for item, entry in zip(items, rest)
        ):
            return many - at
        return None

    @staticmethod
    def _piece(live: Live, item: Any) -> Entry | None:
        """The tensor that stands for an item: the first one in a pair, as `enumerate(x)` gives."""
        if isinstance(item, tuple):
            item = next((each for each in item if isinstance(each, torch.Tensor)), None)
        return live.find(item) if isinstance(item, torch.Tensor) else None
