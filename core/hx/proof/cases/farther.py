"""A loop that is one in the graph is proved far beyond the rounds that were recorded.

What goes round in Python counts, too: a window of 20 steps, a cache that is cut, a buffer that is
begun anew at every 16th. Nothing of that is seen in the first rounds, or asked of a size.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...budget import BUDGET
from ...ir.size_moves import Move
from ...ir.work import Work
from ...recording.run_limits import is_long, rounds_fit
from ...samples.sizes import Sizes, limits_of, sizes_of, told
from .across import Across
from .extremes import smallest, stays_finite
from .othersizes import case_at, other_rank

if TYPE_CHECKING:
    from ..subject import Subject
    from ..verify import Case
    from .case_source import Planned

BETWEEN = (18, 3, 10, 31, 8, 23, 40, 9)  # sizes, or parts of 16 of what is larger than 64
FEW_ROUNDS = (2, 3)  # rounds: of one, most things are alike
ROUND_FACTORS = (4, 16, 64)  # as many rounds as were recorded
# Between these a far size of each name is drawn; in the next ones, if a run is too much work.
FAR_SIZES = ((1501, 2000), (751, 900), (251, 300))
LEAST_FAR = (131, 131)  # for all names together, with half of the budget of the others
ROUNDS = ("range", "rounds")  # escapes: it goes round as often as sizes say, as was recorded


def farther(subject: Subject, planned: Planned) -> list[Case]:
    """Few rounds, and the largest sizes that the model takes, and takes soon."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    rounds = sorted(subject.trace.merged.loop_sizes & words.keys())
    if not rounds:
        return []
    across = Across(Work(subject.trace.nodes), words, subject.recipe.request.sizes.limits)
    few: list[Case] = []
    for n in FEW_ROUNDS:
        sizes = {**words, **{word: n for word in rounds if limits[word].hold(n)}}
        few += case_at(subject, sizes, told({word: sizes[word] for word in rounds}))[0]
    found: list[Case] = []
    for odd, times in enumerate(ROUND_FACTORS):
        sizes = dict(words)
        for word in rounds:
            step, high = limits[word].step, limits[word].high
            n = (
                times * words[word] // step + 2 + odd
            ) * step  # odd or even, if there may be either
            sizes[word] = n if high is None else min(n, high // step * step)
        if across.refused(Move(sizes), 0):
            break
        # Rounds in rounds are as many as their product: then one of both goes far at a time.
        more = math.prod(sizes[word] / words[word] for word in rounds)
        together = rounds_fit(subject.trace, more)
        case: list[Case] = []
        refused: list[str] = []
        for far in [rounds] if together else [[word] for word in rounds]:
            there = {**words, **{word: sizes[word] for word in far}}
            made, why = case_at(subject, there, told({word: there[word] for word in far}))
            case, refused = case + made, refused + why
        if refused:
            break
        found = [*found[: len(case)], *case]
        if not rounds_fit(
            subject.trace, more * BUDGET.work.rounds_together / BUDGET.work.longer_run
        ):
            break
    return few + found


def at_large(subject: Subject, planned: Planned) -> list[Case]:
    """Return a case at a far larger size of each name, with the others at their smallest.

    How far depends on the work there. If the model refuses the size, or its results are infinite
    there, the next smaller one is tried: a table of positions may end.

    What code out of sight makes of a size, as an entry of a table for every hundred, or the digits of
    a number, may be the same at all sizes that are near.
    """
    others = planned.at_other_sizes
    if any(other_rank(subject, case) for case in others):
        return []  # no graph is right
    recipe, words = subject.recipe, sizes_of(subject.recipe)
    known = [words, *(sizes_of(recipe, each.feeds) for each in others)]
    asked = [a for e in subject.escapes.values() if e.kind in ROUNDS for a in e.asked]
    by_values = any(each.of_values() for each in asked)
    work, within = Work(subject.trace.nodes, words), recipe.request.sizes.limits
    share, limits = 1 / max(len(words), 1), BUDGET.work
    most, least = (
        Across(work, words, within, times=times, little=little)
        for times, little in (
            (limits.far_size_factor * share, limits.far_sizes * share),
            (limits.far_size_factor, limits.far_sizes / 2),
        )
    )
    small = smallest(subject) if len(words) > 1 else words
    rests = [small] if small == words else [small, words]
    in_rounds = subject.trace.merged.loop_sizes.union(*(each.names() for each in asked))
    found: list[Case] = []
    for word in words:
        if word in in_rounds:
            continue
        # Rounds that values decide are in no estimate of the work.
        budgets = {} if by_values else dict.fromkeys(FAR_SIZES, most.anew())
        budgets[LEAST_FAR] = least
        refused: list[Sizes] = []
        for there in _far_sizes(subject, word, rests, budgets, known):
            if by_values and not _soon(subject, there, word):
                continue
            made, why = case_at(subject, there, told({word: there[word]}))
            refused += [there] if why else []
            if finite := [case for case in made if stays_finite(subject, case)]:
                found += finite
                break
        else:
            found += _largest_taken(subject, word, refused[-1:])
    for each in found:
        each.far = True
    return found


def _far_sizes(
    subject: Subject,
    word: str,
    rests: Sequence[Sizes],
    budgets: Mapping[tuple[int, int], Across],
    known: Sequence[Sizes],
) -> Iterator[Sizes]:
    """Yield sizes with a far larger one of this name that fit into the budget."""
    limit, n = limits_of(subject.recipe)[word], sizes_of(subject.recipe)[word]
    tried: list[Sizes] = []
    for (low, high), rest in itertools.product(budgets, rests):
        large = low + zlib.crc32(word.encode()) % (high - low + 1)
        size = (large if limit.high is None else min(large, limit.high)) // limit.step * limit.step
        if size < 2 * n:
            continue
        if any(sizes[word] >= size for sizes in known):
            return
        there = {**rest, word: size}
        if there not in tried and not budgets[low, high].refused(Move(there), 0):
            tried.append(there)
            yield there


def _largest_taken(subject: Subject, word: str, refused: Sequence[Sizes]) -> list[Case]:
    """Return the case at the largest size below a refused one: a table of positions ends there."""
    taken: list[Case] = []
    for there in refused:
        step = limits_of(subject.recipe)[word].step
        low, high = sizes_of(subject.recipe)[word] // step, there[word] // step
        while high - low > 1:
            n = (low + high) // 2
            made, _ = case_at(subject, {**there, word: n * step}, told({word: n * step}))
            if made and stays_finite(subject, made[0]):
                taken, low = made, n
            else:
                high = n
    return taken


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


def is_far(subject: Subject, case: Case) -> bool:
    """Return whether some size is far too large to record the model there."""
    sizes = sizes_of(subject.recipe, case.feeds)
    return any(sizes[w] > BUDGET.sizes.far_factor * n for w, n in sizes_of(subject.recipe).items())


def between(subject: Subject, planned: Planned) -> list[Case]:
    """Sizes that no formula was found from, where numbers follow from sizes by formulas: all other
    together, and each with others beside it. Some of these where a size was written in a text: it may
    have been read from there, and nobody has heard what it decided."""
    few = BUDGET.sizes.size_in_text if subject.trace.effects.size_in_text else 0
    turns = len(BETWEEN) if subject.recipe.flow.formulas else few
    if not turns:
        return []
    recipe, limits = subject.recipe, limits_of(subject.recipe)
    words = sizes_of(recipe)
    known = [
        words,
        *recipe.flow.formulas,
        *(sizes_of(recipe, each.feeds) for each in planned.at_other_sizes),
    ]
    across = Across(Work(subject.trace.nodes), words, recipe.request.sizes.limits)
    cases: list[Case] = []
    for turn in range(turns):
        sizes = {}
        for place, (word, n) in enumerate(words.items()):
            part, step = BETWEEN[(turn + 2 * place) % len(BETWEEN)], limits[word].step
            sizes[word] = max(1, round(n * part / 16 / step) if n > 64 else part) * step
        held = all(limits[word].hold(n) for word, n in sizes.items())
        if held and sizes not in known and not across.refused(Move(sizes), 0):
            cases += case_at(subject, sizes, told(sizes))[0]
    return cases
