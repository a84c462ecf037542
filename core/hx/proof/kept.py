"""A promise is kept: a file that is right from a size on is tried at that size, and within.

Where it begins to be wrong was found from one question of the model. What is wrong next to it may
come of another one that nobody asked there: three convolutions that pad for themselves ask in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..inputs.grammar import Limits
from ..recording.capture import Capture
from .cases.othersizes import Sizes, case_at, told
from .proof import CaseCheck
from .verify import Case

EDGE = 8  # sizes in a row from where it begins: as many as leave something over, mostly
TURNS = 8  # times that it begins anew

Tried = Callable[[list[Case]], list[CaseCheck | None]]  # what is wrong at each, if it is


def kept(
    captured: Capture, word: str, limit: Limits, given: Sizes, tried: Tried
) -> tuple[Limits, list[CaseCheck]]:
    """The limits within which it is right, and what was found wrong on the way to them."""
    known = {case.name for case in captured.cases}
    seen = {n for n in _some(limit, given[word]) if told({word: n}) in known}
    broken: list[CaseCheck] = []
    for _ in range(TURNS):
        sizes = [n for n in dict.fromkeys(_some(limit, given[word])) if n not in seen]
        cases: list[tuple[int, Case]] = []
        for n in sizes:
            made, _refused = case_at(captured, {**given, word: n}, told({word: n}))
            cases += [(n, case) for case in made]
        seen.update(sizes)
        checks = tried([case for _, case in cases]) if cases else []
        before = limit
        for (n, case), check in zip(cases, checks):
            if check is None:
                continue
            broken.append(check)
            captured.cases.append(case)
            if n < given[word]:
                limit = limit.and_also(Limits(n + 1))
            else:
                limit = limit.and_also(Limits(0, n - 1))
        if limit == before:
            return limit, broken
        if not limit.hold(given[word]):
            break
    return Limits(given[word] + 1), broken  # nothing is left that could be promised


def _some(limit: Limits, n: int) -> Iterator[int]:
    """From both ends, and between them: from the smaller half of what was given to twice of it."""
    step = limit.step
    if limit.low > 1:
        first = limit.least
        yield from (first + i * step for i in range(EDGE) if first + i * step < n)
    if limit.high is not None:
        last = limit.high // step * step
        yield from (last - i * step for i in range(EDGE) if last - i * step > n)
    for begin in (n // 2 // step * step, n + step):
        within = (begin + i * step for i in range(EDGE))
        yield from (size for size in within if size != n and size > 0 and limit.hold(size))
