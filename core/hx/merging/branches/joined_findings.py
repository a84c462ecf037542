"""Findings about joined recordings: about each of them, not the first alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...ir.escapes import Escape
from ...ir.recipe import Line
from ...recording.trace import Trace

TRUTH = ("bool", "is_nonzero", "branch")  # kinds of escapes whose answer is yes or no
UNREACHED = "seen on data alone that do not lead there"


def tell(first: Trace, others: list[Trace], both: Collection[Line]) -> None:
    """Add the findings of all recordings to the first; `both` has the lines answered both ways."""
    for trace in (first, *others):
        for escape in trace.escapes.values():
            escape.carried |= asked_there(trace, escape, both)
    reached = {
        key for trace in (first, *others) if not trace.recipe.forced for key in trace.escapes
    }
    for other in others:
        for key, escape in other.escapes.items():
            known = first.escapes.setdefault(key, escape)
            known.carried &= escape.carried
            if key not in reached and is_lost(escape):
                known.beyond = known.beyond or UNREACHED
        first.findings += [each for each in other.findings if each not in first.findings]
        first.effects.add(other.effects)


def is_lost(escape: Escape) -> bool:
    """Return True if a value from the data may have become a plain Python number there."""
    of_values = not escape.asked or escape.asks_of_values()
    return of_values and not escape.carried and escape.kind not in TRUTH


def asked_there(trace: Trace, escape: Escape, both: Collection[Line]) -> bool:
    """Return True if only questions of a line with both answers read values there.

    A value that the same line reads for anything else is lost, as on any other line.
    """
    line = escape.where.file_line
    if line not in both:
        return False
    questions = [each for each in trace.questions if each.line == line]
    if escape.kind == "branch":
        known = {each.asked for each in questions} | {
            asked for each in questions for asked in each.size_questions
        }
        return known.issuperset(escape.asked)
    if escape.kind in TRUTH:
        return True  # or the answer follows from an earlier question
    if escape.kind != "item":
        return False
    read: set[Any] = {id(each.value) for each in questions if each.kind == "item"}
    read |= {atom for each in questions if each.asked is not None for atom in each.asked.numbers()}
    return escape.count <= len(read)
