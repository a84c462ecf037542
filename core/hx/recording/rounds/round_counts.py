"""Sizes that were asked for as a number of rounds, told apart where several are equal.

Two layers that each loop over the experts that they hit may both hit four: their loops are told
apart by the places where each asked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...ir import shapes
from ...ir.sizes.size_polynomials import Poly

Asking = tuple[int, int, Any]  # place among the nodes, number of rounds, and its size


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
        """Count how often a size was asked for between two places."""
        within = self._each[bisect_left(self._places, start) : bisect_left(self._places, end)]
        return sum(shapes.same(length, said) for _, _, said in within)

    def moved(self, where: Callable[[int], int]) -> Known:
        """The same counts, after the nodes have moved to other places."""
        return Known((where(at), count, length) for at, count, length in self._each)

    def of(self, count: int, size: Any, at: int) -> Any:
        """Return the size asked for as this count that always equals `size`, or else that of
        `before`.
        """
        every = self._by_count[count].lengths
        same = (length for length in every if shapes.same(length, size))
        return next(same, None) or self.before(at)[count]

    def asked(self, count: int, begin: int, end: int) -> bool:
        """Return True if a size of this count was asked for after one place, up to the other."""
        places = self._by_count.get(count)
        return places is not None and bool(places.between(begin, end))

    def alone(self, count: int, begin: int | None, end: int | None) -> Any:
        """Return the size of this count, if only one was asked for between two places, or
        anywhere.
        """
        places = self._by_count.get(count, _Places())
        for lengths in ([] if begin is None else places.between(begin, end), places.lengths):
            if len(set(map(Poly.of, lengths))) == 1:
                return lengths[0]
        return None

    def before(self, at: int, end: int | None = None) -> dict[int, Any]:
        """Map each count to the size last asked for up to a place, or else to the first one.

        A size that is asked for repeatedly between `at` and `end` counts an inner loop, and is
        passed over, unless it was asked for twice before `at`, too. One that is asked for once
        there may be for the next round of the loop around, which begins where these rounds end.
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
    """Positions among the nodes where one number of rounds was asked for, and the size at each."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.lengths: list[Any] = []

    def add(self, at: int, length: Any) -> None:
        self.at.append(at)
        self.lengths.append(length)

    def between(self, begin: int, end: int | None) -> list[Any]:
        """Return the sizes asked for after one place, up to the other."""
        last = len(self.at) if end is None else bisect_right(self.at, end)
        return self.lengths[bisect_right(self.at, begin) : last]
