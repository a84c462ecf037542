"""Check of a promise: a file that is right from a size on is tried at that size, and within.

The limit was found from one question of the model. Sizes next to it may be wrong because of another
question that nobody asked there: three convolutions that pad for themselves ask in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...budget import BUDGET
from ...ir.input_grammar import Limits
from ...samples.sizes import Sizes, told
from ..cases.othersizes import case_at
from ..file_proof import Case
from ..proof import CaseCheck
from ..subject import Subject

Tried = Callable[[list[Case]], list[CaseCheck | None]]  # the failure of each case, or None


def kept(
    subject: Subject, word: str, limit: Limits, given: Sizes, tried: Tried
) -> tuple[Limits, list[CaseCheck]]:
    """Return the limits within which the file is right, and the failures found on the way."""
    known = {case.name for case in subject.cases}
    seen = {n for n in _some(limit, given[word]) if told({word: n}) in known}
    broken: list[CaseCheck] = []
    for turn in range(BUDGET.sizes.narrowed):
        sizes = [n for n in dict.fromkeys(_some(limit, given[word])) if n not in seen]
        cases: list[tuple[int, Case]] = []
        for n in sizes:
            made, _refused = case_at(subject, {**given, word: n}, told({word: n}))
            cases += [(n, case) for case in made]
        seen.update(sizes)
        checks = tried([case for _, case in cases]) if cases else []
        before = limit
        for (n, case), check in zip(cases, checks):
            if check is None:
                continue
            broken.append(check)
            subject.cases.append(case)
            if n < given[word]:
                limit = limit.and_also(Limits(n + 1))
            else:
                limit = limit.and_also(Limits(0, n - 1))
        if limit == before:
            return limit, broken
        if turn and limit.high is not None and limit.high > 4 * given[word]:
            # Far off, one size is right by chance where the next one is not.
            limit = limit.and_also(Limits(0, limit.high // 2))
        if not limit.hold(given[word]):
            break
    return Limits(given[word] + 1), broken  # nothing is left to promise


def _some(limit: Limits, n: int) -> Iterator[int]:
    """Yield sizes at both ends of the limits, and near half and the whole of the given size."""
    step, turns = limit.step, range(BUDGET.sizes.at_each_end)
    if limit.low > 1:
        first = limit.least
        yield from (first + i * step for i in turns if first + i * step < n)
    if limit.high is not None:
        last = limit.high // step * step
        yield from (last - i * step for i in turns if last - i * step > n)
    for begin in (n // 2 // step * step, n + step):
        within = (begin + i * step for i in turns)
        yield from (size for size in within if size != n and size > 0 and limit.hold(size))
