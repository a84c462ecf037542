"""Recordings that show the questions a model asks on other inputs.

The model is recorded there once more, and only its questions are kept. Where data lead the model, a
run at some sizes says nothing about a line that only other data lead to.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Hashable, Iterator
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import is_environment_error
from ...ir.escapes import Escape
from ...ir.recipe import Recipe
from ...recording.trace import Trace
from ...samples.signs_and_scales import opposite, zeroed
from ...samples.variations import fresh
from ..file_proof import Case
from ..subject import Subject
from .asking import case_of

Escapes = dict[tuple, Escape]  # by kind and line
OVERFLOW_FACTOR = 1024  # factor for values that lead to an overflow or past a threshold


class Listening:
    """Recordings of one model, one for each case, of which only the questions are kept."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._heard: dict[str, Escapes | str] = {}  # by case; or why there are none
        self._by_values = _leads(subject.trace)

    def at(self, case: Case) -> Escapes | str:
        """Return the escapes on a case's inputs, or why they are not known."""
        if case.name not in self._heard:
            if len(self._heard) == BUDGET.runs.listened_to:
                return "enough others were listened to"
            self._heard[case.name] = self._listen(case)
        return self._heard[case.name]

    def before_error(self, case: Case) -> Escapes:
        """Return the escapes on inputs that the model refuses, up to its error."""
        known = self._heard.get(case.name)
        if not isinstance(known, dict):
            known = {}
            if len(self._heard) < BUDGET.runs.listened_to:
                self._heard[case.name] = self._listen(case, known)
        return known

    def _listen(self, case: Case, before: Escapes | None = None) -> Escapes | str:
        subject = self._subject
        there = dataclasses.replace(
            subject.recipe, inputs=dict(case.feeds), also_proved={}, padding=None
        )
        key, known = _key(subject, there), subject.recorder.heard
        try:
            if key is None or key not in known:
                heard = subject.recorder.record(there, dry=True, one_thread=True, escapes=before)
                found = heard.escapes, _leads(heard)
                if key is not None:
                    known[key] = found
            else:
                found = known[key]
        except Exception as problem:
            if is_environment_error(problem):
                raise
            # The model's own error, though it runs there unrecorded, or that of a converter only
            # that side needs: the results are compared there, and nothing more.
            return str(problem).strip().partition("\n")[0] or type(problem).__name__
        escapes, leads = found
        self._by_values |= leads
        # A proof notes in them what it has tried.
        copies = {place: copy.copy(escape) for place, escape in escapes.items()}
        if before is not None:
            before.update(copies)
        return copies

    def asks(self, escape: Escape, case: Case) -> bool:
        """Return True if the model asks this question on the inputs of a case, as far as known.

        If values never decide the path of the model, every case reaches it.
        """
        if not self._by_values:
            return True
        heard = self.at(case)
        if isinstance(heard, str):
            return case.name in self._heard  # an error means the other side of a question
        return (escape.kind, escape.where.file, escape.where.line) in heard

    def values_at(self, case: Case) -> Escapes:
        """Return what leaves the graph there by its data, and did not in the first recording."""
        heard, known = self.at(case), self._subject.escapes
        return {} if isinstance(heard, str) else {
            key: escape for key, escape in heard.items()
            if key not in known and not escape.carried and _of_values(escape)
        }  # fmt: skip

    def others(self, case: Case) -> Iterator[Case]:
        """Yield cases of the same sizes with other data, which may lead the model elsewhere."""
        for told, tensors in _other_data(dict(case.feeds)):
            yield from case_of(self._subject, f"{case.name}, {told}", tensors)[0]


def values_matter(subject: Subject) -> bool:
    """Return True if data lead the model on any of its ways, or leave the graph there."""
    return any(
        _leads(each.trace) or any(map(_of_values, each.escapes.values()))
        for each in (subject, *subject.members, *subject.forced_members)
    )


def _key(subject: Subject, there: Recipe) -> Hashable | None:
    """Return a key of what a recording shows; None if others on equal inputs may show something else."""
    flow, knowledge = there.flow, subject.recorder.knowledge
    if flow.loops or flow.until or there.forced or there.body:
        return None
    inputs = subject.runner.key(there.inputs)
    if inputs is None:
        return None
    told = len(knowledge.unnamed), len(knowledge.respelled)
    return inputs, there.answers, there.folding, flow.branches is None, there.at_odd_sizes, told


def _leads(trace: Trace) -> bool:
    return any(question.of_values for question in trace.questions)


def _of_values(escape: Escape) -> bool:
    return not escape.asked or escape.by_values() or escape.asks_of_values()


def _other_data(inputs: dict[str, torch.Tensor]) -> Iterator[tuple[str, dict[str, Any]]]:
    floats = {name for name, t in inputs.items() if t.is_floating_point() or t.is_complex()}
    for told, turn in (("larger values", _larger), ("other signs", opposite)):
        if floats:
            yield told, {n: turn(t) if n in floats else t for n, t in inputs.items()}
    for told, tensors in zeroed(inputs).items():
        yield told.replace("zero", "zeros in"), tensors
    yield "other values", fresh(inputs, seed=61)


def _larger(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * OVERFLOW_FACTOR
