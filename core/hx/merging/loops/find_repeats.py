"""Search for sequences of nodes that come again and again."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...budget import BUDGET
from ...ir.value import Constant, Node
from ...recording.rounds.loop_lengths import nodes_key
from ...recording.rounds.round_counts import Known
from .collected_lists import in_places


@dataclass(frozen=True)
class Repeat:
    """Rounds of `period` nodes each, `times` of them; the first begins at `start`."""

    start: int
    period: int
    times: int
    size: Any  # the size that says how many
    fewer: int = 0  # rounds that are left out
    slack: int = 0  # nodes by which it may begin later

    @property
    def length(self) -> Any:
        """The number of rounds, in the graph."""
        return self.size - self.fewer

    @property
    def end(self) -> int:
        return self.start + self.period * self.times

    def goes_around(self, other: Repeat) -> bool:
        within = self.start <= other.start and other.end <= self.end + self.slack
        return within and other.period * other.times <= self.period

    def others(self, begins: set[int]) -> Iterator[Repeat]:
        """Yield the repeat, then those that leave out a round or two: the first, the last.

        Places where a round `begins` come first. Otherwise, left-over nodes rather belong to a
        first round that differs from the others.
        """
        for fewer in range(min(BUDGET.rounds.unlike, self.times - BUDGET.rounds.alike) + 1):
            late = [self.slack + turn * self.period for turn in range(fewer, -1, -1)]
            early = [turn * self.period for turn in range(fewer + 1 + self.slack // self.period)]
            begun = [at for at in range(max(late) + 1) if self.start + at in begins]
            times, out = self.times - fewer, self.fewer + fewer
            begun.sort(key=lambda at: not begins.issuperset(self.starts(at, times)))
            for offset in dict.fromkeys((*begun, *late, *early)):
                yield Repeat(self.start + offset, self.period, times, self.size, out)

    def starts(self, offset: int, times: int) -> range:
        """Return the places where so many rounds begin, if the first is so much later."""
        start = self.start + offset
        return range(start, start + times * self.period, self.period)


def sizes_first(nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """Move nodes that read the sizes of each round's value into the round; return nodes and places.

    The model may walk a list once more for the sizes of its entries. The loop then gives these
    sizes, not all the entries.
    """
    made = {id(value): node for node in nodes for value in node.outputs}
    often = Counter(map(nodes_key, nodes))
    read: dict[Any, dict[Node, Node]] = {}
    for node in nodes:
        source = made.get(id(node.inputs[0])) if node.op == "Shape" else None
        if source is not None:
            of = nodes_key(source), nodes_key(node), str(node.attributes)
            read.setdefault(of, {}).setdefault(source, node)
    moved: dict[Node, list[Node]] = {}
    for (of, *_), pairs in read.items():
        if len(pairs) == often[of] >= BUDGET.rounds.alike:
            for source, node in pairs.items():
                moved.setdefault(source, []).append(node)
    early = {node for found in moved.values() for node in found}
    return in_places([] if node in early else [node, *moved.get(node, ())] for node in nodes)


def repeats(
    nodes: list[Node],
    known: Known,
    begins: set[int],
    fits: Callable[[Repeat], bool],
) -> list[Repeat]:
    """Return the largest repeats whose number is one of the `known` sizes, in the order of nodes.

    `fits` tells if the rounds of a repeat are alike.
    """
    search = _Search(nodes, known, begins, fits)
    for period, start, end in _periods(nodes, known.least - BUDGET.rounds.unlike):
        search.look_at(Stretch(period, start, end))
    search.look_for_passes()
    return sorted(search.largest(), key=lambda each: each.start)


@dataclass(frozen=True)
class Stretch:
    """Consecutive nodes whose kinds repeat with a period; the last repeat may be incomplete."""

    period: int
    start: int
    end: int

    @property
    def often(self) -> int:
        return (self.end - self.start) // self.period

    def is_several_of(self, other: Stretch) -> bool:
        """Return True if a period consists of periods of another stretch."""
        within = other.start <= self.start and self.end <= other.end
        return within and self.period % other.period == 0


class _Stretches:
    """Stretches by period: a recording of many rounds has thousands."""

    def __init__(self) -> None:
        self._by_period: dict[int, list[Stretch]] = {}

    def add(self, stretch: Stretch) -> None:
        self._by_period.setdefault(stretch.period, []).append(stretch)

    def make_up(self, stretch: Stretch) -> bool:
        """Return True if its period consists of periods of one of these."""
        return any(
            stretch.is_several_of(each)
            for period, some in self._by_period.items()
            if stretch.period % period == 0
            for each in some
        )


class _Search:
    """Repeats found so far, and the stretches of nodes that were looked at."""

    def __init__(
        self, nodes: list[Node], known: Known, begins: set[int], fits: Callable[[Repeat], bool]
    ) -> None:
        self._nodes, self._known, self._begins, self._fits = nodes, known, begins, fits
        self._found: list[Repeat] = []
        self._shortest = _Stretches()
        self._in_rows = _Stretches()  # of inner rounds that follow one another
        self._left: list[Stretch] = []  # whose number no size says

    def look_at(self, stretch: Stretch) -> None:
        """Find the repeat, or the rows of inner repeats, of which a stretch consists."""
        if self._in_rows.make_up(stretch):
            return  # inner rounds come first
        # Rounds made of a few equal parts are told from these by where rounds begin.
        parted = self._shortest.make_up(stretch)
        if not parted:
            self._shortest.add(stretch)
        for repeat in self._of_known_number(stretch):
            marked = self._from_marks(repeat) if parted else repeat
            if marked is None:
                return
            if not all(_reads_weights(self._nodes, some) for some in marked.others(self._begins)):
                self._found.append(marked)
                return
        rows = self._rows(stretch)
        self._found += rows
        if rows:
            self._in_rows.add(stretch)
        else:
            self._left.append(stretch)

    def _of_known_number(self, stretch: Stretch) -> Iterator[Repeat]:
        """Yield repeats that are about as many as a known size, the nearest first."""
        period, start, end, often = stretch.period, stretch.start, stretch.end, stretch.often
        least, unlike = BUDGET.rounds.alike, BUDGET.rounds.unlike
        said = self._known.before(start + (end - start) % period, end)
        for count, size in sorted(said.items(), key=lambda one: abs(one[0] - often)):
            times = min(count, often)
            slack = end - start - times * period
            if times >= max(count - unlike, least) and slack <= (unlike + 1) * period:
                yield Repeat(start, period, times, size, count - times, slack)

    def _from_marks(self, repeat: Repeat) -> Repeat | None:
        """Return the repeat from where all its rounds are known to begin; None if nowhere."""
        for late in range(repeat.slack + 1):
            if self._begins.issuperset(repeat.starts(late, repeat.times)):
                return dataclasses.replace(repeat, start=repeat.start + late, slack=0)
        return None

    def _rows(self, stretch: Stretch) -> list[Repeat]:
        """Return the inner rounds of a loop that does nothing else: they follow one another."""
        slack = (stretch.end - stretch.start) % stretch.period
        begun = [at for at in range(stretch.start, stretch.start + slack + 1) if at in self._begins]
        for at in begun or [stretch.start]:
            for times in _in_each(stretch.often, self._known.before(at)):
                rows = self._split(dataclasses.replace(stretch, start=at), times)
                if all(map(self._fits, rows[:2])):
                    return rows
        return []

    def look_for_passes(self) -> None:
        """Find passes over lists of all that the repeats made."""
        loops = Counter(each.times for each in self._found if not each.fewer)
        for stretch in self._left:
            self._found += self._pass_over(stretch, loops)

    def _pass_over(self, stretch: Stretch, loops: Counter[int]) -> list[Repeat]:
        often, known = stretch.often, self._known.before(stretch.start)
        for times in _in_each(often, known):
            if loops[times] >= often // times:
                return self._split(stretch, times)
        for times in loops:
            several = often // times
            if often % times == 0 and 1 < several <= BUDGET.rounds.entries:
                return [Repeat(stretch.start, stretch.period * several, times, known[times])]
        return []

    def _split(self, stretch: Stretch, times: int) -> list[Repeat]:
        """Return rows of so many rounds each."""
        length = times * stretch.period
        return [
            Repeat(begin, stretch.period, times, self._known.before(begin, begin + length)[times])
            for begin in range(
                stretch.start, stretch.start + stretch.often * stretch.period, length
            )
        ]

    def largest(self) -> list[Repeat]:
        """Return repeats that do not overlap: the inner ones of nested ones, else the longest."""

        def order(each: Repeat) -> tuple[bool, int, int]:
            return each.fewer > 0, -each.period * each.times, each.period

        chosen: list[Repeat] = []
        for each in sorted(self._found, key=order):
            if any(self._goes_around(each, other) for other in self._found):
                continue  # inner rounds come first
            if not any(each.start < other.end and other.start < each.end for other in chosen):
                chosen.append(each)
        return chosen

    def _goes_around(self, one: Repeat, other: Repeat) -> bool:
        """Return True if `other` is within rounds of `one`; if its rounds are not as many as its
        size says, each of `one` must ask this size.
        """
        asks = not other.fewer or self._known.often(other.size, one.start, one.end) >= one.times
        return asks and one.goes_around(other)


def _reads_weights(nodes: list[Node], repeat: Repeat) -> bool:
    """Return True if a round reads another weight than the first one.

    Layers are no rounds, though there may be as many as rounds of something else.
    """
    for at in range(repeat.start, repeat.start + repeat.period):
        first, *others = nodes[at : repeat.end : repeat.period]
        for slot, value in enumerate(first.inputs):
            if isinstance(value, Constant) and value.name:
                if any(other.inputs[slot : slot + 1] != [value] for other in others):
                    return True
    return False


def _in_each(often: int, known: Mapping[int, Any]) -> list[int]:
    """Return the possible numbers of rounds in each outer round, if there are `often` in all."""
    return [
        n for n in known if often % n == 0 and (often // n in known or _in_each(often // n, known))
    ]


def counts(nodes: list[Node]) -> tuple[set[int], set[int]]:
    """Return the numbers of repeats: those of the shortest periods, and those of all periods.

    63 repeats are also 31 times two of these, and 21 times three.
    """
    shortest, several, known = set[int](), set[int](), _Stretches()
    for period, start, end in _periods(nodes, BUDGET.rounds.alike_far):
        stretch = Stretch(period, start, end)
        several.add(stretch.often)
        if not known.make_up(stretch):
            known.add(stretch)
            shortest.add(stretch.often)
    return shortest, several


def _periods(nodes: list[Node], least: int) -> Iterator[tuple[int, int, int]]:
    """Yield each period with which kinds of nodes repeat, the shortest first, and where."""
    kinds: dict[Any, int] = {}
    each = [kinds.setdefault(nodes_key(node), len(kinds)) for node in nodes]
    keys = np.array(each, np.int32)
    for period in range(1, len(nodes) // max(1, least) + 1):
        same = keys[:-period] == keys[period:]
        shortest = (BUDGET.rounds.alike - 1) * period
        if np.count_nonzero(same) < shortest:
            continue  # true of most periods in a long recording
        for start, end in _runs(same):
            if end - start >= shortest:
                yield period, start, end + period


def _runs(same: Any) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist())
