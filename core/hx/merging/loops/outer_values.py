"""Rounds that become a loop in a later pass, because their inner rounds become loops first.

    for kind in kinds:  # one of these,
        for side in sides:
            x = step(x, kind, side)  # is read by each of the rounds in here

The inner loops read one value of each outer round, so the outer rounds stay as they are until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...budget import BUDGET
from ...ir.node_reads import reads
from ...ir.value import Node, Value
from .collected_lists import is_list
from .find_repeats import Repeat

NOWHERE = range(0)


def middle(many: int) -> range:
    """Return the indices of values that may be counted from either end."""
    ends = BUDGET.rounds.unlike
    return range(ends, many - ends)


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
        self._within: dict[int, Repeat] = {}  # place of a node -> its repeat
        # Place of a node -> what it reads, and a count of its inputs. Lists may have thousands.
        self._read: dict[int, tuple[list[Value], Counter[int]]] = {}
        found = [*repeats]
        for repeat in sorted(found, key=lambda each: each.start, reverse=True):
            own = range(repeat.start, repeat.end + repeat.slack)
            if not any(self._is_read(each, own) for each in self._made(repeat)):
                self.now.append(repeat)
                self._within.update(dict.fromkeys(own, repeat))
        self.now.reverse()
        self.postponed = len(self.now) < len(found)
        self.splits = {node for node in splits if found and self._is_read(node.outputs)}

    def _made(self, repeat: Repeat) -> Iterable[Sequence[Value]]:
        """Yield what an output of the round is in each of the rounds."""
        rounds = [
            self._nodes[at : at + repeat.period]
            for at in range(repeat.start, repeat.end, repeat.period)
        ]
        for alike in zip(*rounds):
            yield from zip(*(node.outputs for node in alike))

    def _is_read(self, each: Sequence[Value], own: range = NOWHERE) -> bool:
        """Return True if a value from the middle is read elsewhere than in its round."""

        def alone(k: int) -> bool:
            return any(
                self._is_read_alone(each, at, slot)
                for at, slot in self._readers.get(id(each[k]), ())
                if at not in own
            )

        few = not middle(len(each))  # all are at an end: then all must be read so
        return all(map(alone, range(len(each)))) if few else any(map(alone, middle(len(each))))

    def _is_read_alone(self, each: Sequence[Value], at: int, slot: int) -> bool:
        repeat = self._within.get(at)
        if repeat is None:
            often = self._all_read(at)[1]
            together = sum(id(value) in often for value in each)
            if often[id(self._reads(at, slot))] >= BUDGET.rounds.recorded_far:
                return True  # each round of an inner loop reads it
            least = max(BUDGET.rounds.alike, len(each) - 2 * BUDGET.rounds.unlike)
            return not is_list(self._nodes[at]) or together < least
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
