"""What is told of recordings that were joined: of each of them, and not of the first alone."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Collection
from typing import Any

from ...report import Escape
from ..capture import Capture
from .rows import Line

TRUTH = ("bool", "is_nonzero", "branch")  # kinds of escapes: what is heard is yes or no
UNREACHED = "seen on data alone that do not lead there"


def tell(first: Capture, others: list[Capture], both: Collection[Line]) -> None:
    """Makes the report of the first that of all: `both` are the lines that go both ways."""
    for captured in (first, *others):
        for escape in captured.recording.escapes.values():
            escape.carried |= asked_there(captured, escape, both)
    reached = {
        key
        for captured in (first, *others)
        if not captured.prepared.forced
        for key in captured.recording.escapes
    }
    for other in others:
        for key, escape in other.recording.escapes.items():
            known = first.recording.escapes.setdefault(key, escape)
            known.carried &= escape.carried
            if key not in reached and is_lost(escape):
                known.beyond = known.beyond or UNREACHED
        first.notes += [note for note in other.notes if note not in first.notes]
        first.compiled += [each for each in other.compiled if each not in first.compiled]
        first.set_by_scripts |= other.set_by_scripts
        first.drew |= other.drew
        first.drew_outside |= other.drew_outside
        for name in ("changed_buffers", "changed_parameters", "touched", "keeps"):
            setattr(first, name, sorted({*getattr(first, name), *getattr(other, name)}))


def is_lost(escape: Escape) -> bool:
    """Whether a number of the data may have become a plain one there."""
    of_values = not escape.asked or any(asked.of_values() for asked in escape.asked)
    return of_values and not escape.carried and escape.kind not in TRUTH


def asked_there(captured: Capture, escape: Escape, both: Collection[Line]) -> bool:
    """Whether all that left there is what the model asked where it goes both ways.

    What is read on the same line for anything else is as lost as on any other.
    """
    line = escape.where.file, escape.where.line
    if line not in both:
        return False
    questions = [each for each in captured.recording.questions.each if each.line == line]
    if escape.kind == "branch":
        known = {each.asked for each in questions} | {
            asked for each in questions for asked in each.sized
        }
        return known.issuperset(escape.asked)
    if escape.kind in TRUTH:
        return True  # or of what was asked before
    if escape.kind != "item":
        return False
    read: set[Any] = {id(each.value) for each in questions if each.kind == "item"}
    read |= {atom for each in questions if each.asked is not None for atom in each.asked.numbers()}
    return escape.count <= len(read)
