"""Where in a row of nodes the same ones come again and again."""

from __future__ import annotations

from builtins import len, min, range  # their own: `world` hooks those of the model
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensors.values import Constant, Node
from .known import Known
from .lengths import FAR, LEAST_ALIKE, MOST_EACH, OFF, nodes_key


@dataclass(frozen=True)
class Repeat:
    """`times` rounds of `period` nodes each, the first at `start`; `length` says how many."""

    start: int
    period: int
    times: int
    size: Any  # what said how many
    fewer: int = 0  # that are left out of them
    slack: int = 0  # how much further on it may begin as well

    @property
    def length(self) -> Any:
        """How many, in the graph."""
        return self.size - self.fewer

    @property
    def end(self) -> int:
        return self.start + self.period * self.times

    def goes_around(self, other: Repeat) -> bool:
        within = self.start <= other.start and other.end <= self.end + self.slack
        return within and other.period * other.times <= self.period

    def others(self, begins: set[int]) -> Iterator[Repeat]:
        """The same, and those that leave out a round or two: the first, the last.

        Best where a round `begins`. Else, what is left over is more likely of a first one that is
        unlike the others.
        """
        for fewer in range(min(OFF, self.times - LEAST_ALIKE) + 1):
            late = [self.slack + turn * self.period for turn in range(fewer, -1, -1)]
            early = [turn * self.period for turn in range(fewer + 1 + self.slack // self.period)]
            begun = [at for at in range(max(late) + 1) if self.start + at in begins]
            times, out = self.times - fewer, self.fewer + fewer
            begun.sort(key=lambda at: not begins.issuperset(self._starts(at, times)))
            for offset in dict.fromkeys((*begun, *late, *early)):
                yield Repeat(self.start + offset, self.period, times, self.size, out)

    def _starts(self, offset: int, times: int) -> range:
        start = self.start + offset
        return range(start, start + times * self.period, self.period)


def sizes_first(nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """The nodes with what reads the sizes of each round's value in the round, and where each is now.

    A list is gone through once more for the sizes of what is in it: then the loop gives these, and
    not all that they are the sizes of.
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
        if len(pairs) == often[of] >= LEAST_ALIKE:
            for source, node in pairs.items():
                moved.setdefault(source, []).append(node)
    early = {node for found in moved.values() for node in found}
    if not early:
        return nodes, [*range(len(nodes) + 1)]
    now: list[Node] = []
    places = []
    for node in nodes:
        places.append(len(now))
        if node not in early:
            now += [node, *moved.get(node, ())]
    return now, [*places, len(now)]


def repeats(
    nodes: list[Node],
    known: Known,
    begins: set[int],
    fits: Callable[[Repeat], bool],
) -> list[Repeat]:
    """Those that are as many as one of the `known` sizes, the largest; in the order of the nodes.

    `fits` says whether the rounds of one are alike.
    """
    found: list[tuple[bool, int, int, Repeat]] = []
    whole: list[
        tuple[int, int, int]
    ] = []  # what repeats itself most often: where, and each how long
    in_rows: list[tuple[int, int, int]] = []  # and those that make up rounds of rounds
    others: list[tuple[int, int, int]] = []
    for period, start, end in _periods(nodes, known.least - OFF):
        if any(s <= start and end <= e and period % p == 0 for s, e, p in in_rows):
            continue  # first what goes round in each of its rounds
        # Rounds that a few equal parts make up are told from the parts by where they begin.
        parted = any(s <= start and end <= e and period % p == 0 for s, e, p in whole)
        if not parted:
            whole.append((start, end, period))
        often = (end - start) // period
        said = known.before(start + (end - start) % period, end)
        for count, size in sorted(said.items(), key=lambda one: abs(one[0] - often)):
            times = min(count, often)
            slack = end - start - times * period
            if times < max(count - OFF, LEAST_ALIKE) or slack > (OFF + 1) * period:
                continue
            if parted:
                marked = (at for at in range(start, start + slack + 1) if at in begins)
                all_begin = (
                    at for at in marked if begins.issuperset(range(at, at + times * period, period))
                )
                start, slack = next(all_begin, -1), 0
                if start < 0:
                    break
            repeat = Repeat(start, period, times, size, count - times, slack)
            if all(_reads_weights(nodes, some) for some in repeat.others(begins)):
                continue
            found.append((times != count, -period * times, period, repeat))
            break
        else:
            rows = _rows(start, end, period, known, begins, fits)
            found += [(False, -period * each.times, period, each) for each in rows]
            if rows:
                in_rows.append((start, end, period))
            else:
                others.append((start, period, often))
    loops = Counter(each.times for unlike, _, _, each in found if not unlike)
    for start, period, often in others:  # what is done to a list of all that these made
        for times in _in_each(often, known.before(start)):
            if loops[times] >= often // times:
                rows = _split(start, period, often, times, known)
                found += [(False, -period * each.times, period, each) for each in rows]
                break
        else:
            for times in _of_several(often, loops):
                size = known.before(start)[times]
                each = Repeat(start, period * (often // times), times, size)
                found.append((False, -period * often, each.period, each))
                break

    def goes_around(one: Repeat, other: Repeat, unlike: bool) -> bool:
        """Whether the other is within its rounds: surely so, where each of them asks how often."""
        asked = not unlike or known.often(other.size, one.start, one.end) >= one.times
        return asked and one.goes_around(other)

    chosen: list[Repeat] = []
    for *_, each in sorted(found, key=lambda one: one[:3]):
        if any(goes_around(each, other, unlike) for unlike, _, _, other in found):
            continue  # first what goes round in each of its rounds
        if not any(each.start < other.end and other.start < each.end for other in chosen):
            chosen.append(each)
    return sorted(chosen, key=lambda each: each.start)


def _reads_weights(nodes: list[Node], repeat: Repeat) -> bool:
    """Whether a round reads another weight than the first one does: as many layers as there are
    rounds of something else, or as many weights as each layer has."""
    for at in range(repeat.start, repeat.start + repeat.period):
        first, *others = nodes[at : repeat.end : repeat.period]
        for slot, value in enumerate(first.inputs):
            if isinstance(value, Constant) and value.name:
                if any(other.inputs[slot : slot + 1] != [value] for other in others):
                    return True
    return False


def _rows(
    start: int,
    end: int,
    period: int,
    known: Known,
    begins: set[int],
    fits: Callable[[Repeat], bool],
) -> list[Repeat]:
    """The rounds in each round of a loop that does nothing else: they come one behind the other."""
    often = (end - start) // period
    slack = (end - start) % period
    begun = [at for at in range(start, start + slack + 1) if at in begins]
    for at in begun or [start]:
        for times in _in_each(often, known.before(at)):
            rows = _split(at, period, often, times, known)
            if all(map(fits, rows[:2])):
                return rows
    return []


def _in_each(often: int, known: Mapping[int, Any]) -> list[int]:
    """How many there may be in each round, where so many are those of all rounds."""
    return [
        n for n in known if often % n == 0 and (often // n in known or _in_each(often // n, known))
    ]


def _of_several(often: int, loops: Iterable[int]) -> list[int]:
    """How many rounds there may be, where each of them gave several of those that there are."""
    return [n for n in loops if often % n == 0 and 1 < often // n <= MOST_EACH]


def _split(start: int, period: int, often: int, times: int, known: Known) -> list[Repeat]:
    each = times * period
    return [
        Repeat(begin, period, times, known.before(begin, begin + each)[times])
        for begin in range(start, start + often * period, each)
    ]


def counts(nodes: list[Node]) -> tuple[set[int], set[int]]:
    """How often anything comes again and again: each as the 63 times that it does, and also as 31
    times two of these, and 21 times three."""
    each: list[tuple[int, int, int]] = []
    several: set[int] = set()
    for period, start, end in _periods(nodes, FAR - OFF):
        several.add((end - start) // period)
        if not any(period % p == 0 and a <= start and end <= b for p, a, b in each):
            each.append((period, start, end))
    return {(end - start) // period for period, start, end in each}, several


def _periods(nodes: list[Node], least: int) -> Iterator[tuple[int, int, int]]:
    """After how many nodes the same kinds come again, the fewest first; from where, and to where."""
    kinds: dict[Any, int] = {}
    each = [kinds.setdefault(nodes_key(node), len(kinds)) for node in nodes]
    keys = np.array(each, np.int32)
    for period in range(1, len(nodes) // max(1, least) + 1):
        same = keys[:-period] == keys[period:]
        if np.count_nonzero(same) < (LEAST_ALIKE - 1) * period:
            continue  # of most periods, where a recording is long
        for start, end in _runs(same):
            if end - start >= (LEAST_ALIKE - 1) * period:
                yield period, start, end + period


def _runs(same: Any) -> Iterator[tuple[int, int]]:
    """From where to where all are the same."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist())
