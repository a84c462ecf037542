"""Sizes far off from what was recorded, judged by what a recording at those sizes gives there.

PyTorch and onnxruntime sum a thousand numbers otherwise, pick others of equal ones, and a network
may magnify that. It says nothing of a file where the graph that is recorded there is as far off:
nobody could have exported another one. Where that one is right, a size was lost on its way to a
number.

How far the file is right is looked for then, by halves: it may be promised up to there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from ..errors import Where, is_of_the_world
from ..inputs.grammar import Limits
from ..recording.capture import Capture
from ..report import Escape
from ..saving import wire
from ..saving.save import Staged
from ..surely import inside
from .cases.across import Move
from .cases.othersizes import case_at, limits_of, sizes_of, told
from .nodes import record_again
from .promised import Tried, may_be_ruled_out
from .proof import CaseCheck, Proof
from .verify import Case

TIMES, FEW = 2, 64  # as many nodes as were recorded, and so many more
AS_WRONG = 2  # times as far off as the one that is recorded there is another matter
SAME = "a recording at these sizes is as far off: rounding or ties decide"


Proved = Callable[[Path, Case], CaseCheck | None]  # what is seen of a file, if anything is


def clear(
    captured: Capture, cases: list[Case], proof: Proof, proved: Proved, drawn: bool = False
) -> None:
    """Finds nothing wrong with a file at sizes far off where what is recorded there is as wrong.

    What was compared on random numbers that both got is looked at by itself, when it has been.
    """
    if len(proof.cases) != len(cases):
        return  # the file does not run at all
    for case, check in zip(cases, proof.cases):
        if check.equal or case.name not in captured.at_large:
            continue
        if (check.same_draws or check.equal_draws) != drawn:
            continue
        there = _recorded(captured, case)
        if there is None:
            continue

        def seen(staged: Staged, case: Case = case) -> CaseCheck | None:
            return proved(staged.path, case)

        found = inside(Staged(None, None, there), seen)
        if found is None or not _as_wrong(found, check):
            continue
        check.by_parts = SAME


def bound(captured: Capture, cases: list[Case], proof: Proof, tried: Tried) -> None:
    """Finds how far a file is right that is wrong at sizes far off alone."""
    if len(proof.cases) != len(cases):
        return
    left = [pair for pair in zip(cases, proof.cases) if not _is_known(captured, proof, *pair)]
    if all(case.name in captured.at_large for case, _ in left):
        for case, check in left:
            lost = _lost(captured, case, check)
            captured.beyond[case.name] = lost, _border(captured, case, tried)


def _is_known(captured: Capture, proof: Proof, case: Case, check: CaseCheck) -> bool:
    return check.ok or case.name in captured.beyond or may_be_ruled_out(captured, proof, case)


def _border(captured: Capture, case: Case, tried: Tried) -> Move:
    """The limit below the least size that is found to be wrong, between the recorded one and this."""
    words, sizes = sizes_of(captured.prepared), sizes_of(captured.prepared, case.feeds)
    (word,) = (word for word, n in sizes.items() if n != words[word])
    step = limits_of(captured.prepared)[word].step
    right, wrong = words[word] // step, sizes[word] // step
    while wrong - right > 1:
        n = (right + wrong) // 2
        there, _ = case_at(captured, {**words, word: n * step}, told({word: n * step}))
        if there and tried(there)[0] is not None:
            wrong = n
        else:  # or the model itself refuses it
            right = n
    return Move(sizes, {word: Limits(0, right * step)})


def _lost(captured: Capture, case: Case, check: CaseCheck) -> Escape:
    """What is another number in a recording at these sizes, or what keeps the file from running."""
    from .locate import apart

    here, there = (_recorded(captured, each) for each in (captured.cases[0], case))
    found = apart(here, there, case.name) if here and there else iter(())
    known = next(found, "where it cannot be recorded as it was")
    said = f"as it does not run there: {check.problem.splitlines()[0]}" if check.problem else known
    return Escape("lost", Where("", 0), said)


def _recorded(captured: Capture, case: Case) -> wire.Parts | None:
    """What is recorded on these inputs; nothing where there is far more of it."""
    room = TIMES * len(captured.recording.builder.nodes) + FEW
    within = dataclasses.replace(captured.prepared.truly, room=room)
    try:
        return record_again(dataclasses.replace(captured, prepared=within), case)[0]
    except Exception as problem:
        # The model's own, of any kind, or too much of a graph. A file is cleared by what is recorded
        # alone: whatever is raised here, it stays as wrong as it was seen to be.
        if is_of_the_world(problem):
            raise
        return None


def _as_wrong(there: CaseCheck, check: CaseCheck) -> bool:
    if check.problem or there.problem:
        return False  # neither rounding nor ties keep a file from running
    return all(
        other.problem and own.max_abs <= AS_WRONG * other.max_abs
        for own, other in zip(check.outputs, there.outputs, strict=True)
        if own.problem
    )
