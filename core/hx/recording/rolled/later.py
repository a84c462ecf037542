"""What goes round later: what there is one of for each round of a loop that has others within.

    for kind in kinds:  # one of these,
        for side in sides:
            x = step(x, kind, side)  # is read by each of the rounds in here

First the rounds within become loops, and what they read stays where it is.
"""

from __future__ import annotations

from builtins import len, max, range  # their own: `world` hooks those of the model
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...tensors.values import Node, Value
from ..both.rows import reads
from .lengths import FAR, LEAST_ALIKE, OFF
from .listed import is_list
from .repeats import Repeat

ENDS = 2  # of the first and the last it is known where they are, however many there are

NOWHERE = range(0)


def middle(many: int) -> range:
    """Those of which nobody knows from where they are counted."""
    return range(ENDS, many - ENDS)


class Later:
    def __init__(
        self,
        nodes: list[Node],
        repeats: Iterable[Repeat],
        splits: Iterable[Node],
        readers: Mapping[int, list[tuple[int, int]]],
    ) -> None:
        self._nodes, self._readers = nodes, readers
        self.now: list[Repeat] = []
        self._within: dict[int, Repeat] = {}  # by where a node is
        # What a node reads, of all slots, and its inputs by how often: a list may have thousands.
        self._read: dict[int, tuple[list[Value], Counter[int]]] = {}
        found = [*repeats]
        for repeat in sorted(found, key=lambda each: each.start, reverse=True):
            own = range(repeat.start, repeat.end + repeat.slack)
            if not any(self._is_read(each, own) for each in self._made(repeat)):
                self.now.append(repeat)
                self._within.update(dict.fromkeys(own, repeat))
        self.now.reverse()
        self.splits = {node for node in splits if found and self._is_read(node.outputs)}

    def _made(self, repeat: Repeat) -> Iterable[Sequence[Value]]:
        """What a node of the round makes in each of them."""
        rounds = [
            self._nodes[at : at + repeat.period]
            for at in range(repeat.start, repeat.end, repeat.period)
        ]
        for alike in zip(*rounds):
            yield from zip(*(node.outputs for node in alike))

    def _is_read(self, each: Sequence[Value], own: range = NOWHERE) -> bool:
        """Whether one of the middle is read where it is not that of the round."""

        def alone(k: int) -> bool:
            return any(
                self._is_read_alone(each, at, slot)
                for at, slot in self._readers.get(id(each[k]), ())
                if at not in own
            )

        few = not middle(len(each))  # each is at an end: rounds that read them all are seen by that
        return all(map(alone, range(len(each)))) if few else any(map(alone, middle(len(each))))

    def _is_read_alone(self, each: Sequence[Value], at: int, slot: int) -> bool:
        repeat = self._within.get(at)
        if repeat is None:
            often = self._all_read(at)[1]
            together = sum(id(value) in often for value in each)
            if often[id(self._reads(at, slot))] >= FAR:
                return True  # in each round of a loop within
            return not is_list(self._nodes[at]) or together < max(LEAST_ALIKE, len(each) - 2 * OFF)
        other = at + (repeat.period if at + repeat.period < repeat.end else -repeat.period)
        return self._reads(at, slot) is self._reads(other, slot)

    def _reads(self, at: int, slot: int) -> Value | None:
        found, _ = self._all_read(at)
        return found[slot] if slot < len(found) else None

    def _all_read(self, at: int) -> tuple[list[Value], Counter[int]]:
        known = self._read.get(at)
        if known is None:
            node = self._nodes[at]
            often = Counter(map(id, node.inputs))
            known = self._read[at] = [value for _, value in reads(node)], often
        return known
