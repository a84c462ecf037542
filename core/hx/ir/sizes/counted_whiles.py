"""`while i < n: ...; i += 1`: repeated questions about a number that counts are read as a range."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from .comparisons import Asked
from .size_polynomials import Poly

# Comparisons that hold while one side is larger; and those that hold while it is equal, too.
_MORE = {operator.gt, operator.le, operator.ne, operator.eq}
_AS_MUCH = {operator.ge, operator.lt}


def counted(asked: Iterable[Asked]) -> Asked | None:
    """Return the range that these questions count through, in order, until the last one ends it."""
    gaps: list[Poly] = []
    asks = set()
    for each in asked:
        if not each.compares or not all(isinstance(x, int | Poly) for x in each.of):
            return None
        a, b = map(Poly.of, each.of)
        gaps.append(a + b * Poly.of(-1))
        asks.add(each.ask)
    if len(gaps) < 2 or not (asks <= _MORE or asks <= _AS_MUCH) or len(asks) > 1:
        return None
    more = Poly.of(int(asks <= _AS_MUCH))
    left = [gap + more for gap in gaps]  # more than none as long as it goes on
    steps = {(a + b * Poly.of(-1)).constant for a, b in zip(left, left[1:])}
    step = steps.pop()
    if steps or step is None or step < 1:
        return None
    if any(gap.hint <= 0 for gap in left[:-1]) or left[-1].hint > 0:
        return None
    return Asked(range, (0, left[0], step))
