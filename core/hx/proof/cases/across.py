"""Sizes on the other side of the model's questions about sizes.

`if n > 64` is recorded with one answer. Whether the file is right with the other answer shows at
65, and hardly ever at sizes that are picked at random. This module finds the nearest sizes at which
a question has another answer, and decides whether they are worth their cost.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...budget import BUDGET
from ...ir.input_grammar import Limits, NamedLimits
from ...ir.size_moves import Move
from ...ir.sizes.comparisons import Asked, At, itself
from ...ir.work import Work

if TYPE_CHECKING:
    from ...ir.escapes import Escape

Sizes = Mapping[str, int]

BEYOND_BORDER = 2  # factor of the distance from the border that is well beyond it


@dataclass
class Side:
    """Question that has another answer at other sizes, with the moves there, cheapest first."""

    escape: Escape
    asked: Asked
    moves: list[Move] = field(default_factory=list)


class Across:
    """Search for sizes beyond the questions of one recording, within the limits of each size."""

    def __init__(
        self,
        work: Work,
        recorded: Sizes,
        limits: NamedLimits,
        asks: Callable[[Escape, Sizes], bool] = lambda escape, sizes: True,
        most: int = BUDGET.sizes.across,
        times: float = BUDGET.work.other_sizes_factor,
        little: float = BUDGET.work.negligible,
    ) -> None:
        self._all, self._recorded, self._limits = work, recorded, limits
        self._asks = asks  # whether the model reached a line in a run at some sizes
        self._at: dict[tuple[int, ...], At] = {}
        self._works: dict[tuple[int, ...], float] = {}
        self._moves: dict[Asked, list[Move]] = {}
        self._most, self._runs = most, BUDGET.sizes.runs_for_each * most
        self._searches = BUDGET.combinations.pairs
        self._left = self._whole = max(times * self._work(recorded), little)

    def anew(self) -> Across:
        """Return a copy with the full budget."""
        other = copy.copy(self)
        other._runs, other._left = BUDGET.sizes.runs_for_each * self._most, self._whole
        return other

    def sides(self, escapes: Iterable[Escape], seen: Sequence[Sizes]) -> list[Side]:
        """Return the sides that none of the sizes in `seen` shows; note the sizes in the others."""
        found = []
        for escape in escapes:
            for asked in escape.asked:
                side = Side(escape, asked, self._moves.get(asked, []))
                if not self.shown(side, seen):
                    if asked not in self._moves:
                        self._moves[asked] = self._by_cost(asked)
                    side.moves = self._moves[asked]
                    if side.moves and not self.shown(side, seen):
                        found.append(side)
        return sorted(found, key=lambda side: self._cost(side.moves[0]))

    def well_beyond(
        self, escapes: Iterable[Escape], seen: Sequence[Sizes]
    ) -> Iterator[tuple[Escape, Move]]:
        """Yield moves to sizes that are not just beyond a border, if `seen` has none; largest
        first.

        Just beyond it, both ways may have equal results: a clip of 33 that is cut to one window of
        32, as one of 31 is filled up to it, or a seventh element that is the last one as well.
        """
        found: list[tuple[Escape, Move]] = []
        for escape in escapes:
            for asked in escape.asked:
                if asked.ask is itself or asked.period() != 1:
                    continue  # a remainder: the next size already has another answer
                if asked not in self._moves:
                    self._moves[asked] = self._by_cost(asked)
                for word, move in self._nearest_of_each(self._moves[asked]).items():
                    found += [(escape, far) for far in self._far(asked, move, word, seen)]
        yield from sorted(found, key=lambda pair: -self._work(pair[1].sizes))

    def _nearest_of_each(self, moves: Iterable[Move]) -> dict[str, Move]:
        """Return, for each name, the smallest move that changes its size alone."""
        found: dict[str, Move] = {}
        for move in moves:
            by = {w: abs(n - self._recorded[w]) for w, n in move.sizes.items()}
            changed = [word for word, n in by.items() if n]
            if len(changed) == 1:
                (word,) = changed
                known = found.get(word)
                if known is None or by[word] < abs(known.sizes[word] - self._recorded[word]):
                    found[word] = move
        return found

    def _far(self, asked: Asked, move: Move, word: str, seen: Sequence[Sizes]) -> Iterator[Move]:
        near, step = move.sizes[word], self._limits[word].step
        larger = near > self._recorded[word]
        n = (BEYOND_BORDER * near // step + 1 if larger else near // step // BEYOND_BORDER) * step
        there = {**self._recorded, word: n}
        known = any(
            (sizes[word] >= n if larger else sizes[word] <= n) and self._differs(asked, sizes)
            for sizes in seen
        )
        if n > step and not known and self._limits[word].hold(n) and self._differs(asked, there):
            yield Move(there, move.limits)

    def shown(self, side: Side, seen: Iterable[Sizes]) -> bool:
        """Return True if a proof at some of these sizes shows what another answer leads to.

        Smaller sizes count only where they are the nearest: with a single element, most results are
        equal.
        """
        asked, nearest = side.asked, [move.sizes for move in side.moves]
        only_level = nearest and all(self._level(asked, sizes) for sizes in nearest)
        for sizes in seen:
            larger = all(sizes[word] >= n for word, n in self._recorded.items())
            shows = (larger or sizes in nearest) and self._differs(asked, sizes)
            shows = shows and (only_level or not self._level(asked, sizes))
            if shows and self._asks(side.escape, sizes):
                tell(side.escape, f"tried at {self.told(sizes)}")
                return True
        return False

    def told(self, sizes: Sizes) -> str:
        """List the sizes that differ from the recorded ones."""
        return ", ".join(f"{w}={n}" for w, n in sizes.items() if n != self._recorded[w])

    def refused(self, move: Move, tried: int) -> str:
        """Return why sizes are not tried, or "" and count their work as spent."""
        usual, work = self._work(self._recorded), self._work(move.sizes)
        advice = "; ".join(filter(None, [move.within, move.fixed]))
        never = f" (if it never comes, say so: {advice})" if advice else ""
        room = self._all.memory(self._at.setdefault(tuple(move.sizes.values()), At(move.sizes)))
        if work > self._left:
            return f"{work / max(usual, 1):.0f} times the work of the recorded sizes{never}"
        if tried == self._most or not self._runs:
            return f"enough others were{never}"
        if room > BUDGET.bytes.results:
            return f"it may take {room / 1e9:.1f} GB of memory{never}"
        self._left -= work
        self._runs -= 1
        return ""

    # Other answers.

    def _answer(self, asked: Asked, sizes: Sizes, side: bool = False) -> Any:
        return asked.answer_if_known(self._at.setdefault(tuple(sizes.values()), At(sizes)), side)

    def _differs(self, asked: Asked, sizes: Sizes) -> bool:
        old, new = (self._answer(asked, each) for each in (self._recorded, sizes))
        return old is not None and new is not None and bool(old != new)

    def _level(self, asked: Asked, sizes: Sizes) -> bool:
        """Return True if both sides of a comparison are equal at these sizes."""
        return asked.compares and self._answer(asked, sizes, True) == 0

    def _ways(self, asked: Asked) -> Iterator[Move]:
        """Yield moves to the nearest other answers: each size alone, and all of them together."""
        recorded = self._recorded
        names = sorted(asked.names() & recorded.keys())
        for words in [names] * (len(names) > 1) + [[word] for word in names]:
            above, below = (self._nearest(asked, words, by) for by in (1, -1))
            known = words == names and not asked.guessed
            within = self._within(asked, words, above[:1], below[:1]) if known else {}
            for by, found in ((1, above), (-1, below)):
                limits = within.get(by, {})
                ways = [*found[::-1], *self._farther(asked, words, found[-1:], by)]
                for sizes in found[-1:] if len(words) == 1 else ():
                    # What divides the recorded size may have to divide every one, and sizes that
                    # are equal may have to stay so.
                    n, start = sizes[words[0]], recorded[words[0]]
                    alike = [w for w, size in recorded.items() if size == start]
                    ways.append({**recorded, words[0]: -(-n // max(start, 1)) * start})
                    ways.append({**recorded, **dict.fromkeys(alike, n)})
                for i, way in enumerate(ways):
                    if way not in ways[:i] and self._may(asked, way):
                        yield Move(way, limits)

    def at_once(
        self, asked: Asked, leads: Callable[[Sizes], bool] = lambda sizes: True
    ) -> list[Move]:
        """Return moves that change two sizes together, for answers that no single size leads to.

        An example is `h * w == 256` where two names are equal, which the model may ask as well, and
        where one of the moves is as near to the recorded sizes as any.
        """
        recorded, names = self._recorded, sorted(asked.names() & self._recorded.keys())
        names = names if len(names) > 1 else list(recorded)
        found: list[Move] = []
        for pair in itertools.combinations(names, 2):
            self._searches -= 1
            if self._searches < 0:
                break
            end = 2 * max(recorded[word] for word in pair)
            rows = [self._some(word) for word in pair]
            ways = ((size, size) for size in range(1, end + 1)), itertools.product(*rows)
            for way in ways:
                there = ({**recorded, **dict(zip(pair, each))} for each in way)
                moves = [s for s in there if self._may(asked, s) and leads(s)]
                moves.sort(key=lambda s: sum(abs(s[word] - recorded[word]) for word in pair))
                found += [Move(each) for each in moves[:1]]
        return found

    def _some(self, word: str) -> list[int]:
        """Return sizes of a name: some close to the recorded one, others up to twice as large."""
        n, limit = self._recorded[word], self._limits[word]
        count = BUDGET.combinations.sizes_of_a_pair
        apart = -(-2 * n // count)
        some = {*range(0, 2 * n + 1, apart), *range(n - count // 4, n + count // 4)}
        return sorted(size for size in some if size > 0 and limit.hold(size))

    def _may(self, asked: Asked, sizes: Sizes) -> bool:
        return self._limits.hold(sizes) and self._differs(asked, sizes)

    def _within(
        self, asked: Asked, words: list[str], above: Sequence[Sizes], below: Sequence[Sizes]
    ) -> dict[int, dict[str, Limits]]:
        """Return the limits that exclude sizes above (1) or below (-1); for a number, both."""
        branch = isinstance(self._answer(asked, self._recorded), bool)
        found: dict[int, dict[str, Limits]] = {1: {}, -1: {}}
        for by, limits in found.items():
            for word in words:
                step = self._limits[word].step
                highs = [sizes[word] - step for sizes in above if by > 0 or not branch]
                lows = [sizes[word] + step for sizes in below if by < 0 or not branch]
                limits[word] = self._limits[word].and_also(Limits(sum(lows), *highs))
        return found

    def _nearest(self, asked: Asked, words: list[str], by: int) -> list[dict[str, int]]:
        """Return the nearest larger (1) or smaller (-1) sizes of these names with another answer.

        If both sides of a comparison are equal there, the second result lies beyond it: a tensor
        that is padded to 40 needs no padding at 40, whichever way the model goes.
        """
        largest = BUDGET.sizes.largest
        steps, last = {}, largest
        for word in words:
            limit, start = self._limits[word], self._recorded[word]
            steps[word] = by * limit.step
            end = limit.least if by < 0 else largest if limit.high is None else limit.high
            last = min(last, (end - start) // steps[word])

        def sizes(k: int) -> dict[str, int]:
            return {w: n + k * steps.get(w, 0) for w, n in self._recorded.items()}

        def differs(k: int) -> bool:
            return k <= last and self._differs(asked, sizes(k))

        def found(k: int) -> list[dict[str, int]]:
            beyond = self._level(asked, sizes(k)) and differs(k + 1)
            return [sizes(k), sizes(k + 1)] if beyond else [sizes(k)]

        near = max(BUDGET.sizes.near, min(asked.period(), BUDGET.sizes.one_by_one))
        for k in range(1, near + 1):
            if differs(k):
                return found(k)
        passed, low = [self._answer(asked, self._recorded, True)], near
        while None not in passed and low < last:
            high = min(2 * low, last)
            if self._answer(asked, sizes(high), True) not in (*passed, None):
                while high - low > 1:
                    middle = (low + high) // 2
                    there = self._answer(asked, sizes(middle), True)
                    low, high = (middle, high) if there in passed else (low, middle)
                for k in (high, high + 1):
                    if differs(k):
                        return found(k)
                # Both sides are equal, as at many sizes if the question is about a rounded number.
                passed.append(self._answer(asked, sizes(high), True))
            low = high
        return []

    def _farther(
        self, asked: Asked, words: list[str], nearest: list[dict[str, int]], by: int
    ) -> Iterator[dict[str, int]]:
        """Yield the next sizes with another remainder.

        A model that needs even sizes refuses the nearest size that is no multiple of four.
        """
        if asked.period() == 1:
            return
        found = 0
        for sizes in nearest:
            for k in range(1, BUDGET.sizes.near + 1):
                steps = {word: by * k * self._limits[word].step for word in words}
                way = {word: n + steps.get(word, 0) for word, n in sizes.items()}
                wanted = found < BUDGET.sizes.beyond_nearest
                if wanted and min(way.values()) > 0 and self._differs(asked, way):
                    found += 1
                    yield way

    # Costs.

    def _by_cost(self, asked: Asked) -> list[Move]:
        """Sort the moves by what they show, then by cost.

        Moves to equality come last: there, the other answer often changes nothing.
        """
        return sorted(
            [*self._ways(asked)] or (self.at_once(asked) if len(asked.names()) > 1 else []),
            key=lambda move: (self._level(asked, move.sizes), self._cost(move)),
        )

    def _cost(self, move: Move) -> tuple[bool, float]:
        """Return the cost of a move; smaller sizes come last, because they may show nothing."""
        smaller = any(n < self._recorded[word] for word, n in move.sizes.items())
        return smaller, self._work(move.sizes)

    def _work(self, sizes: Sizes) -> float:
        key = tuple(sizes.values())
        if key not in self._works:
            self._works[key] = self._all.at(self._at.setdefault(key, At(sizes)))
        return self._works[key]


def tell(escape: Escape, what: str) -> None:
    told = escape.beyond.split("; ") if escape.beyond else []
    told = [each for each in told if not each.startswith(f"not {what}:")]  # no longer true
    if what not in told and len(told) < BUDGET.sizes.across:
        escape.beyond = "; ".join([*told, what])
