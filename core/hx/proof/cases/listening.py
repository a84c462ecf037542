"""What a model asks where it is run with other inputs than it was recorded with.

It is recorded there once more, and what comes of that is thrown away but for its questions. Where
what is in its tensors leads it, that it was run at some sizes says nothing of a line that only
other data lead to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from ...errors import is_of_the_world
from ...recording.capture import Capture, capture
from ...report import Escape
from ..verify import Case
from .asking import case_of
from .turned import opposite, zeroed
from .variations import fresh

Escapes = dict[tuple, Escape]  # by kind and line
MOST = 12  # recordings
LARGER = 1024  # times: what is asked for an overflow, or a threshold


class Listening:
    """To one model, once for each case."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        self._heard: dict[str, Escapes | str] = {}  # by case; or why nothing was heard
        self._by_values = _leads(captured)

    def at(self, case: Case) -> Escapes | str:
        """The escapes there, or why they are not known."""
        if case.name not in self._heard:
            if len(self._heard) == MOST:
                return "enough others were listened to"
            self._heard[case.name] = self._listen(case)
        return self._heard[case.name]

    def _listen(self, case: Case) -> Escapes | str:
        captured = self._captured
        there = dataclasses.replace(
            captured.prepared, tensors=dict(case.feeds), given={}, dry=True, pads=None
        )
        try:
            heard = capture(there, captured.registry, captured.opset, captured.wanted)
        except Exception as problem:
            if is_of_the_world(problem):
                raise
            # The model's own, which does run there unheard, or that of a converter which that side
            # alone would need: the file is compared there, and no further.
            return str(problem).strip().partition("\n")[0] or type(problem).__name__
        self._by_values |= _leads(heard)
        heard.recording.let_go()
        return heard.recording.escapes

    def asks(self, escape: Escape, case: Case) -> bool:
        """Whether the model gets to that line, as far as can be known: of one that no data lead it
        always does where it did before."""
        if not self._by_values:
            return True
        heard = self.at(case)
        if isinstance(heard, str):
            return case.name in self._heard  # what fails there is on the other side
        return (escape.kind, escape.where.file, escape.where.line) in heard

    def values_at(self, case: Case) -> Escapes:
        """What leaves the graph there for what is in tensors, and did not where it was recorded."""
        heard, known = self.at(case), self._captured.recording.escapes
        return {} if isinstance(heard, str) else {
            key: escape for key, escape in heard.items()
            if key not in known and not escape.carried and _of_values(escape)
        }  # fmt: skip

    def others(self, case: Case) -> Iterator[Case]:
        """The same sizes with other data, which may lead the model elsewhere."""
        for told, tensors in _other_data(dict(case.feeds)):
            yield from case_of(self._captured, f"{case.name}, {told}", tensors)[0]


def values_matter(captured: Capture) -> bool:
    """Whether what is in tensors leads the model on any of its ways, or leaves the graph there."""
    return any(
        _leads(each) or any(map(_of_values, each.recording.escapes.values()))
        for each in (captured, *captured.others, *captured.heard)
    )


def _leads(captured: Capture) -> bool:
    return any(question.of_values for question in captured.recording.questions.each)


def _of_values(escape: Escape) -> bool:
    return not escape.asked or escape.by_values() or any(each.of_values() for each in escape.asked)


def _other_data(inputs: dict[str, torch.Tensor]) -> Iterator[tuple[str, dict[str, Any]]]:
    floats = {name for name, t in inputs.items() if t.is_floating_point() or t.is_complex()}
    for told, turn in (("larger values", _larger), ("other signs", opposite)):
        if floats:
            yield told, {n: turn(t) if n in floats else t for n, t in inputs.items()}
    for told, tensors in zeroed(inputs).items():
        yield told.replace("zero", "zeros in"), tensors
    yield "other values", fresh(inputs, seed=61)


def _larger(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * LARGER
