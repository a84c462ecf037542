"""A loop that is one in the graph is proved far beyond the rounds that were recorded.

What goes round in Python counts, too: a window of 20 steps, a cache that is cut, a buffer that is
begun anew at every 16th. Nothing of that is seen in the first rounds, or asked of a size.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from .across import Across, Move
from .othersizes import Sizes, case_at, limits_of, other_rank, sizes_of, told
from .work import Work

if TYPE_CHECKING:
    from ...recording.capture import Capture
    from ..verify import Case

BETWEEN = (18, 3, 10, 31, 8, 23, 40, 9)  # sizes, or parts of 16 of what is larger than 64
SOME = 4  # of these
FEW = (2, 3)  # rounds: of one, most things are alike
TIMES = (4, 16, 64)  # as many rounds as were recorded
ENOUGH = 0.1  # seconds of the model's run after which a larger one may take too long
LONG = 5.0  # seconds of a run, as far as one can tell before it
# Sizes, and work for which PyTorch calls no other threads, or hardly: those have to be waited for.
LARGE = {1031: 1 << 16, 131: 1 << 20}
LARGE_TIMES = 2  # as much work as at the recorded sizes is done in any case
ROUNDS = ("range", "rounds")  # escapes: it goes round as often as sizes say, as was recorded
OFF = 16  # times as large is far off
RECORDED = 10  # times as long as by itself takes a round that is recorded, about


def farther(captured: Capture) -> list[Case]:
    """Few rounds, and the largest sizes that the model takes, and takes soon."""
    words, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    rounds = sorted(captured.rounds & words.keys())
    if not rounds:
        return []
    across = Across(Work(captured.recording.builder.nodes), words, captured.prepared.dynamic.limits)
    few: list[Case] = []
    for n in FEW:
        sizes = {**words, **{word: n for word in rounds if limits[word].hold(n)}}
        few += case_at(captured, sizes, told({word: sizes[word] for word in rounds}))[0]
    found: list[Case] = []
    for odd, times in enumerate(TIMES):
        sizes = dict(words)
        for word in rounds:
            step, high = limits[word].step, limits[word].high
            n = (
                times * words[word] // step + 2 + odd
            ) * step  # odd or even, if there may be either
            sizes[word] = n if high is None else min(n, high // step * step)
        if across.refused(Move(sizes), 0):
            break
        began = time.perf_counter()
        # Rounds in rounds are as many as their product: then one of both goes far at a time.
        more = math.prod(sizes[word] / words[word] for word in rounds)
        together = captured.seconds / RECORDED * more <= LONG
        case: list[Case] = []
        refused: list[str] = []
        for far in [rounds] if together else [[word] for word in rounds]:
            there = {**words, **{word: sizes[word] for word in far}}
            made, why = case_at(captured, there, told({word: there[word] for word in far}))
            case, refused = case + made, refused + why
        if refused:
            break
        found = [*found[: len(case)], *case]
        if time.perf_counter() - began > ENOUGH:
            break
    return few + found


def at_large(captured: Capture, others: list[Case]) -> list[Case]:
    """Each size far larger than recorded, where the model is soon through with it.

    What code out of sight makes of a size, as an entry of a table for every hundred, or the digits of
    a number, may be the same at all sizes that are near.
    """
    if captured.recording.builder is None:
        return []  # of a file alone, nobody knows how long it takes
    if any(other_rank(captured, case) for case in others):
        return []  # no graph is right
    prepared, limits = captured.prepared, limits_of(captured.prepared)
    words = sizes_of(prepared)
    known = [words, *(sizes_of(prepared, each.feeds) for each in others)]
    escapes = captured.recording.escapes.values()
    often = {w for e in escapes if e.kind in ROUNDS for asked in e.asked for w in asked.names()}
    work, within = Work(captured.recording.builder.nodes, words), prepared.dynamic.limits
    for_all = {
        large: Across(work, words, within, times=LARGE_TIMES, little=little)
        for large, little in LARGE.items()
    }
    by_values = any(
        e.kind in ROUNDS and any(asked.of_values() for asked in e.asked) for e in escapes
    )
    found: list[Case] = []
    for word, n in words.items():
        if word in often | captured.rounds:
            continue
        step, high = limits[word].step, limits[word].high
        for large, across in for_all.items():
            size = (large if high is None else min(large, high)) // step * step
            if size < 2 * n:
                continue
            if any(sizes[word] >= size for sizes in known):
                break
            sizes = {**words, word: size}
            if across.refused(Move(sizes), 0) or (by_values and not _soon(captured, sizes, word)):
                continue
            case, _ = case_at(captured, sizes, told({word: size}))
            found += case
            if case:
                break  # else a table of positions ends, maybe
    captured.at_large |= {case.name for case in found}
    return found


def _soon(captured: Capture, sizes: Sizes, word: str) -> bool:
    """Whether the model is through with it soon, as far as smaller sizes tell: where it goes round as
    often as values say, its recording does not."""
    n = TIMES[0] * sizes_of(captured.prepared)[word]
    while n < sizes[word]:
        began = time.perf_counter()
        if not case_at(captured, {**sizes, word: n}, told({word: n}))[0]:
            return False
        if time.perf_counter() - began > ENOUGH:
            return False
        n *= TIMES[0]
    return True


def is_far(captured: Capture, case: Case) -> bool:
    """Whether some size is so much larger than recorded that nobody would record the model there."""
    sizes = sizes_of(captured.prepared, case.feeds)
    return any(sizes[w] > OFF * n for w, n in sizes_of(captured.prepared).items())


def between(captured: Capture, others: list[Case]) -> list[Case]:
    """Sizes that no formula was found from, where numbers follow from sizes by formulas: all other
    together, and each with others beside it. Some of these where a size was written in a text: it may
    have been read from there, and nobody has heard what it decided."""
    few = SOME if captured.recording.spelled else 0
    turns = len(BETWEEN) if captured.prepared.follows else few
    if not turns:
        return []
    prepared, limits = captured.prepared, limits_of(captured.prepared)
    words = sizes_of(prepared)
    known = [words, *prepared.follows, *(sizes_of(prepared, each.feeds) for each in others)]
    across = Across(Work(captured.recording.builder.nodes), words, prepared.dynamic.limits)
    cases: list[Case] = []
    for turn in range(turns):
        sizes = {}
        for place, (word, n) in enumerate(words.items()):
            part, step = BETWEEN[(turn + 2 * place) % len(BETWEEN)], limits[word].step
            sizes[word] = max(1, round(n * part / 16 / step) if n > 64 else part) * step
        held = all(limits[word].hold(n) for word, n in sizes.items())
        if held and sizes not in known and not across.refused(Move(sizes), 0):
            cases += case_at(captured, sizes, told(sizes))[0]
    return cases
