"""Which size said how often the model went round, where several said the same number.

Two layers that each go over the experts that they hit may both hit four: their loops are told apart
by where each asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...sizes import shapes
from ...sizes.polynomials import Poly

Asking = tuple[int, int, Any]  # where in the nodes, how many that was, and what said so


class Known:
    def __init__(self, each: Iterable[Asking] = ()) -> None:
        self._each = sorted(each, key=lambda asking: asking[0])
        self.least = min((count for _, count, _ in self._each), default=1)

    def __bool__(self) -> bool:
        return bool(self._each)

    def __contains__(self, count: int) -> bool:
        return any(count == many for _, many, _ in self._each)

    def often(self, length: Any, start: int, end: int) -> int:
        """How often that was asked from the one place to the other."""
        within = (said for at, _, said in self._each if start <= at < end)
        return sum(shapes.same(length, said) for said in within)

    def moved(self, where: Callable[[int], int]) -> Known:
        """The same, where the nodes are at other places now."""
        return Known((where(at), count, length) for at, count, length in self._each)

    def of(self, count: int, size: Any, at: int) -> Any:
        """What said that there are so many, where that many are to be as many as a size."""
        every = (length for _, many, length in self._each if many == count)
        same = (length for length in every if shapes.same(length, size))
        return next(same, None) or self.before(at)[count]

    def asked(self, count: int, begin: int, end: int) -> bool:
        """Whether anything said that there are so many, from behind the one place to the other."""
        return any(many == count and begin < at <= end for at, many, _ in self._each)

    def alone(self, count: int, begin: int | None, end: int | None) -> Any:
        """What said that there are so many, if nothing else did from the one place to the other, or
        anywhere; else None."""
        every = [(at, length) for at, many, length in self._each if many == count]
        within = [
            length
            for at, length in every
            if begin is not None and begin < at and (end is None or at <= end)
        ]
        for lengths in (within, [length for _, length in every]):
            if len(set(map(Poly.of, lengths))) == 1:
                return lengths[0]
        return None

    def before(self, at: int, end: int | None = None) -> dict[int, Any]:
        """By how many they were, what said so: the last that was asked up to there, else the first.

        What is asked again and again up to the `end` says how often something goes round in there,
        unless it was asked for both; once may be for the next round of what is around it, which
        begins as these end.
        """
        within = Counter(
            Poly.of(length) for place, _, length in self._each if at < place < (end or at)
        )
        found: dict[int, Any] = {}
        for count in dict.fromkeys(many for _, many, _ in self._each):
            asked = [(place, length) for place, many, length in self._each if many == count]
            last = [length for place, length in reversed(asked) if place <= at]
            inner = set[Poly]()
            for length in last:
                if within[Poly.of(length)] < 2 or Poly.of(length) in inner:
                    break
                inner.add(Poly.of(length))
            else:
                length = last[0] if last else asked[0][1]
            found[count] = length
        return found
