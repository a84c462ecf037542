"""Which size said how often the model went round, where several said the same number.

Two layers that each go over the experts that they hit may both hit four: their loops are told apart
by where each asked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from builtins import len, min, range  # their own: `world` hooks those of the model
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...sizes import shapes
from ...sizes.polynomials import Poly

Asking = tuple[int, int, Any]  # where in the nodes, how many that was, and what said so


class Known:
    def __init__(self, each: Iterable[Asking] = ()) -> None:
        self._each = sorted(each, key=lambda asking: asking[0])
        self._places = [at for at, _, _ in self._each]
        self._by_count: dict[int, _Places] = {}
        for at, count, length in self._each:
            self._by_count.setdefault(count, _Places()).add(at, length)
        self.least = min(self._by_count, default=1)

    def __bool__(self) -> bool:
        return bool(self._each)

    def __contains__(self, count: int) -> bool:
        return count in self._by_count

    def often(self, length: Any, start: int, end: int) -> int:
        """How often that was asked from the one place to the other."""
        within = self._each[bisect_left(self._places, start) : bisect_left(self._places, end)]
        return sum(shapes.same(length, said) for _, _, said in within)

    def moved(self, where: Callable[[int], int]) -> Known:
        """The same, where the nodes are at other places now."""
        return Known((where(at), count, length) for at, count, length in self._each)

    def of(self, count: int, size: Any, at: int) -> Any:
        """What said that there are so many, where that many are to be as many as a size."""
        every = self._by_count[count].lengths
        same = (length for length in every if shapes.same(length, size))
        return next(same, None) or self.before(at)[count]

    def asked(self, count: int, begin: int, end: int) -> bool:
        """Whether anything said that there are so many, from behind the one place to the other."""
        places = self._by_count.get(count)
        return places is not None and bool(places.between(begin, end))

    def alone(self, count: int, begin: int | None, end: int | None) -> Any:
        """What said that there are so many, if nothing else did from the one place to the other, or
        anywhere; else None."""
        places = self._by_count.get(count, _Places())
        for lengths in ([] if begin is None else places.between(begin, end), places.lengths):
            if len(set(map(Poly.of, lengths))) == 1:
                return lengths[0]
        return None

    def before(self, at: int, end: int | None = None) -> dict[int, Any]:
        """By how many they were, what said so: the last that was asked up to there, else the first.

        What is asked again and again up to the `end` says how often something goes round in there,
        unless it was asked for both; once may be for the next round of what is around it, which
        begins as these end.
        """
        between = bisect_right(self._places, at), bisect_left(self._places, end or at)
        within = Counter(Poly.of(length) for _, _, length in self._each[slice(*between)])
        found: dict[int, Any] = {}
        for count, places in self._by_count.items():
            last = bisect_right(places.at, at)
            inner = set[Poly]()
            for k in range(last - 1, -1, -1):
                length = places.lengths[k]
                if within[Poly.of(length)] < 2 or Poly.of(length) in inner:
                    break
                inner.add(Poly.of(length))
            else:
                length = places.lengths[last - 1 if last else 0]
            found[count] = length
        return found


class _Places:
    """Where the same number was asked, in their order, and what said it."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.lengths: list[Any] = []

    def add(self, at: int, length: Any) -> None:
        self.at.append(at)
        self.lengths.append(length)

    def between(self, begin: int, end: int | None) -> list[Any]:
        """What was asked behind the one place, up to the other."""
        last = len(self.at) if end is None else bisect_right(self.at, end)
        return self.lengths[bisect_right(self.at, begin) : last]
