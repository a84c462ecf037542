"""Questions about sizes with the same graph for either answer, such as `if n >= 64` before a copy.

The sizes behind such a question may be too much work to try. The model is recorded once more with
the other answer, at the recorded sizes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ...budget import BUDGET
from ...errors import is_environment_error
from ...ir.recipe import Forced
from ...ir.sizes.comparisons import At
from ...merging.formulas.compare_recordings import are_alike
from ...samples.sizes import sizes_of
from ..subject import Subject

if TYPE_CHECKING:
    from ...ir.escapes import Escape
    from ...recording.trace import Trace


def tell_either_way(subject: Subject) -> None:
    """Note untried questions for which both answers give the same graph."""
    if subject.members or subject.forced_members:
        return  # one recording does not show all ways
    untried = [
        e for e in subject.escapes.values() if e.kind == "branch" and "not tried" in e.beyond
    ]
    usual = _recorded(subject, Forced()) if untried else None  # the first may be rewritten by now
    if usual is None:
        return
    for escape in untried[: BUDGET.runs.listened_to]:
        answer = _answer(subject, escape)
        line = (escape.where.file, escape.where.line)
        other = None if answer is None else _recorded(subject, Forced(of_sizes={line: not answer}))
        asked = any(each.where == escape.where for each in usual.escapes.values())
        if other is not None and asked and are_alike(usual, other):
            escape.beyond = "the graph is the same with the other answer"


def _answer(subject: Subject, escape: Escape) -> bool | None:
    """Return the recorded answer to a question about named sizes, if there was but one."""
    at = At(sizes_of(subject.recipe))
    answers = {asked.answer_if_known(at) for asked in escape.asked if asked.is_of_named_sizes()}
    return answers.pop() if len(answers) == 1 else None


def _recorded(subject: Subject, forced: Forced) -> Trace | None:
    recipe = dataclasses.replace(subject.recipe, also_proved={}, forced=forced)
    try:
        return subject.recorder.record(recipe, one_thread=True)
    except Exception as problem:  # the model's own error, of any kind: the answer matters
        if is_environment_error(problem):
            raise
        return None
