"""The sizes on the other side of what a model asked of sizes.

`if n > 64` is taken for good, as it was recorded: whether the file is right beyond is seen at 65,
and hardly ever at sizes that are picked without looking. The proof asks here for the nearest sizes
at which a question has another answer, and whether they are worth what they cost.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...inputs.grammar import Limits
from ...sizes.asked import Asked, At, itself
from ..room import too_large
from .work import Work

if TYPE_CHECKING:
    from ...report import Escape

Sizes = Mapping[str, int]

MOST = 4  # sizes that are tried beside the usual ones
RUNS = 3 * MOST  # of the model, which refuses some of them
TIMES = 8  # as much work as at the recorded sizes, for all of these together
LITTLE = 1 << 28  # work that nobody waits for
EACH = 24  # sizes of one name that are looked at with as many of another,
SEARCHES = 16  # and for how many pairs of names of some question
FARTHER = 2  # sizes beyond the nearest, where the model refuses that
NEAR, FAR = 32, 1024  # sizes that are looked at one by one
END = 1 << 24  # the largest size that is looked for
WELL = 2  # times as far as the border is well beyond it, and half as far


@dataclass
class Move:
    """Sizes at which an answer is another one, and the limits that leave all such out."""

    sizes: dict[str, int]
    limits: dict[str, Limits] = field(default_factory=dict)

    def holds(self, sizes: Sizes) -> bool:
        """Whether these are within the limits."""
        return all(limit.hold(sizes[word]) for word, limit in self.limits.items())

    @property
    def within(self) -> str:
        """The same, as it is written in `dynamic=`."""
        return ", ".join(f"{limit.written(w)} in place of {w}" for w, limit in self.limits.items())


@dataclass
class Side:
    """A question that has another answer elsewhere: where, what costs least first."""

    escape: Escape
    asked: Asked
    moves: list[Move] = field(default_factory=list)


class Across:
    """What is beyond the questions of one recording, from its sizes and within their limits."""

    def __init__(
        self,
        work: Work,
        recorded: Sizes,
        limits: Mapping[str, Limits],
        asks: Callable[[Escape, Sizes], bool] = lambda escape, sizes: True,
        most: int = MOST,
        times: int = TIMES,
        little: int = LITTLE,
    ) -> None:
        self._all, self._recorded, self._limits = work, recorded, limits
        self._asks = asks  # whether the model got to a line when it was run at some sizes
        self._at: dict[tuple[int, ...], At] = {}
        self._works: dict[tuple[int, ...], float] = {}
        self._moves: dict[Asked, list[Move]] = {}
        self._most, self._runs = most, RUNS * most // MOST
        self._searches = SEARCHES
        self._left = self._whole = max(times * self._work(recorded), little)

    def anew(self) -> Across:
        """The same, with as much to spend once more."""
        other = copy.copy(self)
        other._runs, other._left = RUNS * self._most // MOST, self._whole
        return other

    def sides(self, escapes: Iterable[Escape], seen: Sequence[Sizes]) -> list[Side]:
        """Those that none of the sizes that were `seen` shows; of the others, that is told."""
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
        """Sizes that are not just beyond a border, the farthest first, where none that was `seen` is.

        Just beyond it both ways may come to the same: a clip of 33 that is cut to one window of 32,
        as one of 31 is filled up to it, a seventh element that is the last one as well.
        """
        found: list[tuple[Escape, Move]] = []
        for escape in escapes:
            for asked in escape.asked:
                if asked.ask is itself or asked.period() != 1:
                    continue  # another number is another case at once
                if asked not in self._moves:
                    self._moves[asked] = self._by_cost(asked)
                for word, move in self._nearest_of_each(self._moves[asked]).items():
                    found += [(escape, far) for far in self._far(asked, move, word, seen)]
        yield from sorted(found, key=lambda pair: -self._work(pair[1].sizes))

    def _nearest_of_each(self, moves: Iterable[Move]) -> dict[str, Move]:
        """By name, the one that changes its size alone, and by the least."""
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
        n = (WELL * near // step + 1 if larger else near // step // WELL) * step
        there = {**self._recorded, word: n}
        known = any(
            (sizes[word] >= n if larger else sizes[word] <= n) and self._differs(asked, sizes)
            for sizes in seen
        )
        if n > step and not known and self._limits[word].hold(n) and self._differs(asked, there):
            yield Move(there, move.limits)

    def shown(self, side: Side, seen: Iterable[Sizes]) -> bool:
        """Whether a proof at some of these sizes shows what becomes of another answer.

        Smaller ones do where they are the nearest: of a single element, most things are alike.
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
        """Those that are not the recorded ones."""
        return ", ".join(f"{w}={n}" for w, n in sizes.items() if n != self._recorded[w])

    def refused(self, move: Move, tried: int) -> str:
        """Why sizes are not tried, after so many; those that are take what there is to spend."""
        usual, work = self._work(self._recorded), self._work(move.sizes)
        never = f" (if it never comes, say so: {move.within})" if move.within else ""
        room = self._all.memory(self._at.setdefault(tuple(move.sizes.values()), At(move.sizes)))
        if work > self._left:
            return f"{work / max(usual, 1):.0f} times the work of the recorded sizes{never}"
        if tried == self._most or not self._runs:
            return f"enough others were{never}"
        if too_large(room):
            return f"it may take {room / 1e9:.1f} GB of memory{never}"
        self._left -= work
        self._runs -= 1
        return ""

    # Where an answer is another one.

    def _answer(self, asked: Asked, sizes: Sizes, side: bool = False) -> Any:
        return asked.heard(self._at.setdefault(tuple(sizes.values()), At(sizes)), side)

    def _differs(self, asked: Asked, sizes: Sizes) -> bool:
        old, new = (self._answer(asked, each) for each in (self._recorded, sizes))
        return old is not None and new is not None and bool(old != new)

    def _level(self, asked: Asked, sizes: Sizes) -> bool:
        """Whether both sides of a comparison are equal there."""
        return asked.compares and self._answer(asked, sizes, True) == 0

    def _ways(self, asked: Asked) -> Iterator[Move]:
        """To the nearest other answers: each size alone, and all of them together."""
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
                    held = all(self._limits[w].hold(n) for w, n in way.items())
                    if way not in ways[:i] and held and self._differs(asked, way):
                        yield Move(way, limits)

    def at_once(
        self, asked: Asked, leads: Callable[[Sizes], bool] = lambda sizes: True
    ) -> list[Move]:
        """To other answers that no size alone leads to: of `h * w == 256` where two names are equal,
        which may be asked as well, and where one is as near to what was recorded as any."""
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
        """Sizes of a name: those beside the recorded one, and others from none to twice as much."""
        n, limit = self._recorded[word], self._limits[word]
        apart = -(-2 * n // EACH)
        some = {*range(0, 2 * n + 1, apart), *range(n - EACH // 4, n + EACH // 4)}
        return sorted(size for size in some if size > 0 and limit.hold(size))

    def _may(self, asked: Asked, sizes: Sizes) -> bool:
        held = all(self._limits[word].hold(n) for word, n in sizes.items())
        return held and self._differs(asked, sizes)

    def _within(
        self, asked: Asked, words: list[str], above: Sequence[Sizes], below: Sequence[Sizes]
    ) -> dict[int, dict[str, Limits]]:
        """The limits that leave out what is above (1), or below (-1); of a number, both."""
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
        """The nearest larger (1) or smaller (-1) sizes of these names that have another answer.

        Where both sides of a comparison are equal there, what lies beyond is the second: what is
        filled up to 40 is not filled at 40, whichever way is taken.
        """
        steps, last = {}, END
        for word in words:
            limit, start = self._limits[word], self._recorded[word]
            steps[word] = by * limit.step
            end = limit.least if by < 0 else END if limit.high is None else limit.high
            last = min(last, (end - start) // steps[word])

        def sizes(k: int) -> dict[str, int]:
            return {w: n + k * steps.get(w, 0) for w, n in self._recorded.items()}

        def differs(k: int) -> bool:
            return k <= last and self._differs(asked, sizes(k))

        def found(k: int) -> list[dict[str, int]]:
            beyond = self._level(asked, sizes(k)) and differs(k + 1)
            return [sizes(k), sizes(k + 1)] if beyond else [sizes(k)]

        near = max(NEAR, min(asked.period(), FAR))
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
                # Level, as many sizes are, where what was asked is rounded.
                passed.append(self._answer(asked, sizes(high), True))
            low = high
        return []

    def _farther(
        self, asked: Asked, words: list[str], nearest: list[dict[str, int]], by: int
    ) -> Iterator[dict[str, int]]:
        """The next ones of a remainder: a model of which all sizes are even has none at the nearest
        size that is no multiple of four."""
        if asked.period() == 1:
            return
        found = 0
        for sizes in nearest:
            for k in range(1, NEAR + 1):
                steps = {word: by * k * self._limits[word].step for word in words}
                way = {word: n + steps.get(word, 0) for word, n in sizes.items()}
                if found < FARTHER and min(way.values()) > 0 and self._differs(asked, way):
                    found += 1
                    yield way

    # What it costs.

    def _by_cost(self, asked: Asked) -> list[Move]:
        """What shows most for the least: where both sides are equal, the other answer often changes
        nothing."""
        return sorted(
            [*self._ways(asked)] or (self.at_once(asked) if len(asked.names()) > 1 else []),
            key=lambda move: (self._level(asked, move.sizes), self._cost(move)),
        )

    def _cost(self, move: Move) -> tuple[bool, float]:
        """Smaller sizes may show nothing: they come last."""
        smaller = any(n < self._recorded[word] for word, n in move.sizes.items())
        return smaller, self._work(move.sizes)

    def _work(self, sizes: Sizes) -> float:
        key = tuple(sizes.values())
        if key not in self._works:
            self._works[key] = self._all.at(self._at.setdefault(key, At(sizes)))
        return self._works[key]


def tell(escape: Escape, what: str) -> None:
    told = escape.beyond.split("; ") if escape.beyond else []
    told = [each for each in told if not each.startswith(f"not {what}:")]  # it is now
    if what not in told and len(told) < MOST:
        escape.beyond = "; ".join([*told, what])
