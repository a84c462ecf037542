"""Search for the largest size up to which a file is right that is wrong only far off.

At sizes far from the recorded ones, a size that became a number shows, or a converter that is wrong
beyond some size. The largest right size is found by bisection: the file may be promised up to
there. But many rows also hold values that few rows rarely hold. A file that is wrong on a few of these
rows alone is wrong at any size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ...budget import BUDGET
from ...errors import Where, is_environment_error
from ...graph.model_parts import Parts
from ...ir.escapes import Escape
from ...ir.input_grammar import Limits
from ...ir.recipe import Sizes
from ...ir.size_moves import Move
from ...samples.sizes import at, cut, limits_of, sizes_of, told
from ...samples.variations import fresh
from ..cases.across import Across
from ..cases.asking import case_of
from ..cases.othersizes import case_at
from ..cases.small_sizes import is_heavy
from ..differences.nodes import record_again
from ..file_proof import Case
from ..proof import CaseCheck, Proof
from ..subject import Subject
from .promised import Tried, may_be_ruled_out


def bound(subject: Subject, cases: list[Case], proof: Proof, tried: Tried) -> None:
    """Find the limits within which a file is right, if it is wrong only at far sizes."""
    if len(proof.cases) != len(cases):
        return
    left = [pair for pair in zip(cases, proof.cases) if not _is_known(subject, proof, *pair)]
    # Once a number has left, nobody knows up to which size it stays the same.
    plain = not subject.recipe.flow.formulas  # else other sizes may show another formula
    lost = plain and any(_is_unlimited(subject, case) for case, _ in left)
    if not all(case.far or (lost and _times(subject, case) > 1) for case, _ in left):
        return
    found: list[tuple[Escape, Move]] = []
    words = sizes_of(subject.recipe)
    for case, check in sorted(left, key=lambda pair: _times(subject, pair[0])):
        sizes = sizes_of(subject.recipe, case.feeds)
        shared = next((each for each in found if not each[1].holds(sizes)), None)
        if shared is None:
            values = 1 if is_heavy(subject) else BUDGET.far.other_values
            alone = _wrong_rows(subject, case, tried) or _wrong_at(subject, words, values, tried)
            if alone:
                cases.append(alone[0])
                proof.cases.append(alone[1])
                return
            shared = _lost(subject, case, check), _border(subject, case, tried)
            found.append(shared)
        subject.beyond[case.name] = shared
        check.far = True
    for sizes in _corners(subject, [move for _, move in found]):
        if alone := _wrong_at(subject, sizes, 1, tried):
            cases.append(alone[0])
            proof.cases.append(alone[1])


def _is_known(subject: Subject, proof: Proof, case: Case, check: CaseCheck) -> bool:
    known = case.name in subject.beyond and not _is_unlimited(subject, case)
    return check.ok or known or may_be_ruled_out(subject, proof, case)


def _is_unlimited(subject: Subject, case: Case) -> bool:
    """Return True if larger sizes were tried because a number left the graph, and no limit is known."""
    known = subject.beyond.get(case.name)
    return known is not None and not known[1].limits and _times(subject, case) > 1


def _times(subject: Subject, case: Case) -> float:
    """Return how many times a size of a case is as large as the recorded one, at most."""
    words, sizes = sizes_of(subject.recipe), sizes_of(subject.recipe, case.feeds)
    return max((sizes[word] / (words[word] or 1) for word in words), default=1)


def _wrong_rows(subject: Subject, case: Case, tried: Tried) -> tuple[Case, CaseCheck] | None:
    """Return a case of the recorded size, cut from a larger one, on which the file is wrong as well.

    Of two halves, it goes on with one that is wrong.
    """
    recipe, feeds = subject.recipe, dict(case.feeds)
    word, found = _far_name(subject, case), None
    least, step = sizes_of(recipe)[word], limits_of(recipe)[word].step
    size = sizes_of(recipe, feeds)[word]
    while size > least:
        half = max(size // 2 // step * step, least)
        for start in (0, size - half):
            part = cut(recipe, feeds, word, start, half)
            made, _ = case_of(subject, f"{told({word: half})} of the rows at {case.name}", part)
            check = tried(made)[0] if made else None
            if check is not None:
                found, feeds, size = (made[0], check), part, half
                break
        else:
            return None
    return found


def _far_name(subject: Subject, case: Case) -> str:
    """Return the name whose size is the largest multiple of the recorded one."""
    words, sizes = sizes_of(subject.recipe), sizes_of(subject.recipe, case.feeds)
    return max(words, key=lambda each: sizes[each] / (words[each] or 1))


def _border(subject: Subject, case: Case, tried: Tried) -> Move:
    """Find the limit below the smallest wrong size between the recorded one and this one."""
    words, sizes = sizes_of(subject.recipe), sizes_of(subject.recipe, case.feeds)
    word = _far_name(subject, case)
    step = limits_of(subject.recipe)[word].step
    right, wrong = words[word] // step, sizes[word] // step
    while wrong - right > 1:
        n = (right + wrong) // 2
        there = _case_at(subject, case, {**sizes, word: n * step}, told({word: n * step}))
        if there and tried(there)[0] is not None:
            wrong = n
        else:  # right, or refused by the model itself
            right = n
    return Move(sizes, {word: Limits(0, right * step)})


def _wrong_at(
    subject: Subject, sizes: Sizes, count: int, tried: Tried
) -> tuple[Case, CaseCheck] | None:
    """Return a case of these sizes, with other values, on which the file is wrong.

    More elements hold values that few elements rarely hold: then these are the cause, not the size.
    """
    for seed in range(count):
        inputs = fresh(at(subject.recipe, sizes), seed=200 + seed)
        made, _ = case_of(subject, f"other values {seed + 1} at {told(sizes)}", inputs)
        check = tried(made)[0] if made else None
        if check is not None:
            return made[0], check
    return None


def _corners(subject: Subject, moves: Sequence[Move]) -> Iterator[Sizes]:
    """Yield the last promised size of each name, beside larger ones of the others.

    A file may be wrong beyond a product of two sizes.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    last = {w: limit.high for move in moves for w, limit in move.limits.items() if limit.high}
    larger = {w: min(4 * n, last.get(w, 4 * n)) for w, n in words.items()}
    larger = {w: n if limits[w].hold(n) else words[w] for w, n in larger.items()}
    work = subject.trace.graph.work.beside(words)
    for word, n in last.items():
        sizes = {**larger, word: n}
        if not Across(work, words, limits, little=BUDGET.far.work).refused(Move(sizes), 0):
            yield sizes


def _case_at(subject: Subject, case: Case, sizes: Sizes, name: str) -> list[Case]:
    make = subject.elsewhere.get(case.name)
    return make(sizes) if make else case_at(subject, sizes, name)[0]


def _lost(subject: Subject, case: Case, check: CaseCheck) -> Escape:
    """Find the number that differs in a recording at these sizes, or the file's error there."""
    from ..diagnose.first_difference import apart

    here, there = (_recorded(subject, each) for each in (subject.cases[0], case))
    found = apart(here, there, case.name) if here and there else iter(())
    alike = "as a recording at that size is: a converter is wrong there" if here and there else ""
    known = next(found, alike or "where it cannot be recorded as it was")
    said = f"as it does not run there: {check.problem.splitlines()[0]}" if check.problem else known
    return Escape("lost", Where("", 0), said)


def _recorded(subject: Subject, case: Case) -> Parts | None:
    """Record the model on these inputs; return None if it fails or the recording is far larger."""
    nodes, limits = len(subject.trace.nodes), BUDGET.nodes
    room = limits.far_size_factor * nodes + limits.far_size_addition
    within = dataclasses.replace(subject.recipe.truthful, limit=room)
    try:
        return record_again(subject.with_recipe(within), case)[0]
    except Exception as problem:
        # The model's own error, of any kind, or too large a graph: then only the size is reported.
        if is_environment_error(problem):
            raise
        return None
