"""Cases at a far larger size of each name, with the others at their smallest.

A converter that is wrong beyond some size shows nowhere else. What code out of sight makes of a size,
as an entry of a table for every hundred, or the digits of a number, may be the same at all sizes that
are near.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...budget import BUDGET
from ...ir.size_moves import Move
from ...recording.runs.run_limits import is_long
from ...samples.sizes import Sizes, limits_of, sizes_of, told
from .across import Across
from .farther import ROUND_FACTORS
from .othersizes import case_at, other_ranks
from .small_sizes import is_heavy, least_taken, one_row
from .trials import stays_finite

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned

# Between these a far size of each name is drawn; in the next ones, if a run is too much work.
FAR_SIZES = ((1501, 2000), (751, 900), (251, 300))
LEAST_FAR = ((251, 300), (131, 131))  # for all names together, with a budget of their own
ROUNDS = ("range", "rounds")  # escapes: it goes round as often as sizes say, as was recorded


def at_large(subject: Subject, planned: Planned) -> list[Case]:
    """Return a case at a far size of each name, as far as the work there fits into the budget."""
    others = planned.at_other_sizes
    if other_ranks(subject, planned):
        return []
    recipe, words = subject.recipe, sizes_of(subject.recipe)
    known = [words, *(sizes_of(recipe, each.feeds) for each in others)]
    asked = [a for e in subject.escapes.values() if e.kind in ROUNDS for a in e.asked]
    by_values = any(each.of_values() for each in asked)
    work, within = subject.trace.graph.work.beside(words), recipe.request.sizes.limits
    share, limits = 1 / max(len(words), 1), BUDGET.far
    most, least = (
        Across(work, words, within, times=limits.work_factor * part, little=little)
        for part, little in ((share, limits.work * share), (1, limits.least_work))
    )
    small = least_taken(subject, planned) if len(words) > 1 else words
    rests, last, least_far = [small, words], [small, words], LEAST_FAR
    if is_heavy(subject):
        # Every name gets a far size if each of them leaves room for the others.
        rests[0] = one_row(subject, planned.cases, small)
        last = [{word: min(each[word] for each in known) for word in words}]
        least_far = LEAST_FAR[::-1]
    in_rounds = subject.trace.merged.loop_sizes.union(*(each.names() for each in asked))
    found: list[Case] = []
    for word in (each for each in words if each not in in_rounds):
        plans = _Plan.each(LEAST_FAR[-1:] if by_values else least_far, last, least)
        if not by_values:  # rounds that values decide are in no estimate of the work
            plans = [*_Plan.each(FAR_SIZES, rests, most.anew()), *plans]
        sizes = _far_sizes(subject, word, plans, known)
        taken = max(each[word] for each in known)
        sizes = (each for each in sizes if not by_values or _soon(subject, each, word))
        found += _first_taken(subject, word, taken, sizes)
    for each in found:
        each.far = True
    return found


def _first_taken(subject: Subject, word: str, taken: int, sizes: Iterator[Sizes]) -> list[Case]:
    """Return the case at the first of these sizes that the model takes, with finite results.

    If it refuses all of them, return the case at the largest size below that it takes, where that is
    larger than what is known to be `taken`.
    """
    refused: list[Sizes] = []
    for there in sizes:
        made, why = case_at(subject, there, told({word: there[word]}))
        refused += [there] if why else []
        if made and stays_finite(subject, made[0]):
            return made
    return _largest_taken(subject, word, taken, refused[-1:])


class _Plan(NamedTuple):
    """Ends between which a far size is drawn, the sizes beside it, and the budget for the run."""

    ends: tuple[int, int]
    rest: Sizes
    budget: Across

    @classmethod
    def each(
        cls, several: Sequence[tuple[int, int]], rests: Sequence[Sizes], budget: Across
    ) -> list[_Plan]:
        return [cls(ends, rest, budget) for ends, rest in itertools.product(several, rests)]


def _far_sizes(
    subject: Subject, word: str, plans: Sequence[_Plan], known: Sequence[Sizes]
) -> Iterator[Sizes]:
    """Yield sizes with a far larger one of this name that fit into the budget."""
    limit, n = limits_of(subject.recipe)[word], sizes_of(subject.recipe)[word]
    tried: list[Sizes] = []
    for (low, high), rest, budget in plans:
        large = low + zlib.crc32(word.encode()) % (high - low + 1)
        size = (large if limit.high is None else min(large, limit.high)) // limit.step * limit.step
        if size < 2 * n or any(sizes[word] >= size for sizes in known):
            continue
        there = {**rest, word: size}
        if there not in tried and not budget.refused(Move(there), 0):
            tried.append(there)
            yield there


def _largest_taken(subject: Subject, word: str, taken: int, refused: Sequence[Sizes]) -> list[Case]:
    """Return the case at the largest size below a refused one: a table of positions ends there."""
    found: list[Case] = []
    for there in refused:
        step = limits_of(subject.recipe)[word].step
        low, high = taken // step, there[word] // step
        while high - low > 1:
            n = (low + high) // 2
            made, _ = case_at(subject, {**there, word: n * step}, told({word: n * step}))
            if made and stays_finite(subject, made[0]):
                found, low = made, n
            else:
                high = n
    return found


def _soon(subject: Subject, sizes: Sizes, word: str) -> bool:
    """Return whether a run at a far size costs little, judged by runs at smaller sizes.

    The recording does not show the cost of a loop whose rounds depend on values.
    """
    n = ROUND_FACTORS[0] * sizes_of(subject.recipe)[word]
    while n < sizes[word]:
        found, _ = case_at(subject, {**sizes, word: n}, told({word: n}))
        if not found or is_long(subject.trace, found[0].lines):
            return False
        n *= ROUND_FACTORS[0]
    return True
