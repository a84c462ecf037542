"""Search for the largest size up to which a file is right that is wrong only far off.

At sizes far from the recorded ones, a size that became a number shows, or a converter that is wrong
beyond some size. The largest right size is found by bisection: the file may be promised up to
there. But many rows also hold values that few rows rarely hold. A file that is wrong on a few of these
rows alone is wrong at any size.
"""

from __future__ import annotations

import dataclasses

from ...budget import BUDGET
from ...errors import Where, is_environment_error
from ...graph.model_parts import Parts
from ...ir.escapes import Escape
from ...ir.input_grammar import Limits
from ...ir.size_moves import Move
from ...samples.sizes import cut, limits_of, sizes_of, told
from ..cases.asking import case_of
from ..cases.othersizes import case_at
from ..differences.nodes import record_again
from ..file_proof import Case
from ..proof import CaseCheck, Proof
from ..subject import Subject
from .promised import Tried, may_be_ruled_out


def bound(subject: Subject, cases: list[Case], proof: Proof, tried: Tried) -> None:
    """Find the limits up to which a file is right that is wrong only at sizes far off."""
    if len(proof.cases) != len(cases):
        return
    left = [pair for pair in zip(cases, proof.cases) if not _is_known(subject, proof, *pair)]
    # Once a number has left, nobody knows up to which size it stays the same.
    plain = not subject.recipe.flow.formulas  # else other sizes may show another formula
    lost = plain and any(_is_unlimited(subject, case) for case, _ in left)
    if not all(case.far or (lost and _times(subject, case) > 1) for case, _ in left):
        return
    found: list[tuple[Escape, Move]] = []
    for case, check in sorted(left, key=lambda pair: _times(subject, pair[0])):
        sizes = sizes_of(subject.recipe, case.feeds)
        shared = next((each for each in found if not each[1].holds(sizes)), None)
        if shared is None:
            if alone := _wrong_rows(subject, case, tried):
                cases.append(alone[0])
                proof.cases.append(alone[1])
                return
            shared = _lost(subject, case, check), _border(subject, case, tried)
            found.append(shared)
        subject.beyond[case.name] = shared
        check.far = True


def _is_known(subject: Subject, proof: Proof, case: Case, check: CaseCheck) -> bool:
    known = case.name in subject.beyond and not _is_unlimited(subject, case)
    return check.ok or known or may_be_ruled_out(subject, proof, case)


def _is_unlimited(subject: Subject, case: Case) -> bool:
    """Return True for larger sizes that were tried because a number left, with no limit known."""
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
        there, _ = case_at(subject, {**sizes, word: n * step}, told({word: n * step}))
        if there and tried(there)[0] is not None:
            wrong = n
        else:  # right, or refused by the model itself
            right = n
    return Move(sizes, {word: Limits(0, right * step)})


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
