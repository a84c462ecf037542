"""A loop that is one in the graph is proved far beyond the rounds that were recorded.

What goes round in Python counts, too: a window of 20 steps, a cache that is cut, a buffer that is
begun anew at every 16th. Nothing of that is seen in the first rounds, or asked of a size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...budget import BUDGET
from ...findings import OPEN, Finding
from ...ir.recipe import Sizes
from ...ir.size_moves import Move
from ...ir.sizes.comparisons import At, Unforeseen
from ...ir.sizes.size_polynomials import Poly
from ...recording.runs.run_limits import rounds_fit
from ...samples.sizes import limits_of, sizes_of, told
from .across import Across
from .othersizes import case_at

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned

BETWEEN = (18, 3, 10, 31, 8, 23, 40, 9)  # sizes, or parts of 16 of what is larger than 64
FEW_ROUNDS = (2, 3, 1)  # of one, most things are alike, unless rounds are left out before it
ROUND_FACTORS = (4, 16, 64)  # as many rounds as were recorded


def farther(subject: Subject, planned: Planned) -> list[Case]:
    """Few rounds, and the largest sizes that the model takes, and takes soon."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    rounds = sorted(subject.trace.merged.loop_sizes & words.keys())
    if not rounds:
        return []
    across = Across(subject.trace.graph.work, words, subject.recipe.request.sizes.limits)
    few: list[Case] = []
    for sizes in _with_few_rounds(subject, rounds):
        few += case_at(subject, {**words, **sizes}, told(sizes))[0]
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


def _with_few_rounds(subject: Subject, rounds: list[str]) -> list[Sizes]:
    """Return sizes with few rounds: of all loops, and where they are not as many as the size, of each.

    Loops over tiles have a round for each fourth row, and the first or the last one apart.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    found = [{word: n for word in rounds if limits[word].hold(n)} for n in FEW_ROUNDS[:2]]
    lengths = subject.trace.merged.loop_lengths
    for few in FEW_ROUNDS:
        least: Sizes = {}
        for word in rounds:
            for n in range(1, words[word]):
                at = At({**words, word: n})
                if limits[word].hold(n) and any(_known(each, at) == few != n for each in lengths):
                    least[word] = n
                    break
        found += [least, *({word: n} for word, n in least.items() if len(least) > 1)]
    return [sizes for at, sizes in enumerate(found) if sizes and sizes not in found[:at]]


def _known(length: Poly, at: At) -> int | None:
    """Return the number of rounds at these sizes, if it follows from them."""
    try:
        return at(length)
    except (Unforeseen, ArithmeticError, ValueError):
        return None


def is_far(subject: Subject, case: Case) -> bool:
    """Return whether some size is far too large to record the model there."""
    sizes = sizes_of(subject.recipe, case.feeds)
    return any(sizes[w] > BUDGET.sizes.far_factor * n for w, n in sizes_of(subject.recipe).items())


def between(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases at sizes that no formula was fitted to, if numbers follow from sizes by formulas.

    In each case all sizes change, in other combinations. A few such cases are also made if the model
    writes a size into a text: hx does not see what the model reads from there.
    """
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
    work, within = subject.trace.graph.work, recipe.request.sizes.limits
    # Most texts with a size are for an error that is never raised.
    times = BUDGET.work.other_sizes_factor if recipe.flow.formulas else BUDGET.far.work_factor
    across = Across(work, words, within, times=times)
    cases: list[Case] = []
    for turn in range(turns):
        sizes = {}
        for place, (word, n) in enumerate(words.items()):
            part, step = BETWEEN[(turn + 2 * place) % len(BETWEEN)], limits[word].step
            sizes[word] = max(1, round(n * part / 16 / step) if n > 64 else part) * step
        if limits.hold(sizes) and sizes not in known and not across.refused(Move(sizes), 0):
            cases += case_at(subject, sizes, told(sizes))[0]
    return cases


def at_turns(subject: Subject, planned: Planned) -> list[Case]:
    """Sizes at which formulas that were fitted to a few recordings turn, on both sides.

    A remainder of 64 and one of 100 are alike up to there, and so are two quotients.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    known = [words, *subject.recipe.flow.formulas]
    known += [sizes_of(subject.recipe, each.feeds) for each in planned.at_other_sizes]
    across = Across(subject.trace.graph.work, words, subject.recipe.request.sizes.limits)
    cases: list[Case] = []
    for word, turns in subject.trace.merged.turns.items():
        missed = []
        for n in turns:
            sizes = {**words, word: n}
            if sizes in known or not limits[word].hold(n):
                continue
            if across.refused(Move(sizes), 0):
                missed.append(str(n))
                continue
            cases += case_at(subject, sizes, told({word: n}))[0]
        if missed:
            text = (
                f"a number follows from {word} by a formula that turns there: not tried at {word}="
            )
            subject.notes.append(Finding(OPEN, text + ", ".join(missed)))
    return cases
