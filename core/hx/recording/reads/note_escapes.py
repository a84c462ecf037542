"""Notes of values that leave the graph: for Python, for a text, or to decide the model's path."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ...errors import Where
from ...ir.escapes import DETOURS, Escape, noted
from ...ir.sizes import departures
from ...ir.sizes.comparisons import Asked
from ..origins import is_machinery, is_on_behalf
from ..recording import Recording


def note_escape(
    recording: Recording,
    kind: str,
    detail: str,
    where: Where | None = None,
    asked: Iterable[Asked] = (),
    calculated: bool = False,
) -> Where:
    """Note that a traced value left the graph; `asked` is what a size decided by that.

    `calculated`: it is a number that the graph computes, as long as Python only calculates with it.
    """
    where = where or recording.position.where()
    asked = tuple(asked)
    found = noted(recording.findings.escapes, Escape(kind, where, detail, calculated=calculated))
    found.asked.update(dict.fromkeys(asked))
    if found.count == 1 and kind in DETOURS:
        frame = recording.position.frames.called()
        if frame is not None:
            code = frame.f_code
            found.through = Where(code.co_filename, code.co_firstlineno, where.scope)
    if asked and recording.builder.lengths is not None:
        recording.builder.lengths.ask(asked)
    return where


def take_back(recording: Recording, kind: str, taken: tuple[Any, int, int]) -> None:
    """Take back escapes noted while the running call, on its way here, read a list or an array."""
    code, step, count = taken
    frame, where = recording.position.frames.user(), recording.position.where()
    if frame is None or (frame.f_code, frame.f_lasti) != (code, step):
        return
    key = (kind, where.file, where.line)
    found = recording.findings.escapes.get(key)
    if found is not None:
        found.count -= count
        if found.count <= 0:
            del recording.findings.escapes[key]


def size_left(
    recording: Recording, carriers: frozenset[str], kind: str, detail: str, *asked: Asked
) -> bool | None:
    """Note that a size left; returns the answer for the model, if that differs from the truth.

    `carriers` are the files whose code computes with sizes on behalf of its caller.
    """
    lengths, running = recording.builder.lengths, recording.running
    if kind is departures.ROUND:
        if lengths is not None:
            lengths.begin()
        return None
    if kind is departures.TEXT:
        recording.findings.size_in_text |= not (running.busy or running.covered)
        return None
    # PyTorch's own checks compare sizes all the time; a branch is one in the model's code. But
    # a plain number that it makes of a size is as lost as the model's, unless a converter
    # answers for the call.
    if running.covered:
        return None  # a converter answers for the body that runs: what it asks changes no graph
    frame = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename in carriers or is_on_behalf(frame.f_code)
    ):
        frame = frame.f_back  # type: ignore[assignment]
    spoken = kind in ("branch", "lookup") or running.busy
    if frame is None or (spoken and is_machinery(frame.f_code)):
        return None
    where = note_escape(recording, kind, detail, asked=asked)
    if kind != "branch":
        recording.code.lost_sizes.add(frame.f_code)
    if kind == "branch" and len(asked) == 1:
        answer = recording.questions.sizes(recording.builder.nodes, where, asked[0])
        if answer is None:  # the model gets the true one
            recording.builder.equal.learn(asked[0])
        return answer
    return None
