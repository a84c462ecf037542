"""`dynamic="auto"`: sizes are proposed, and those that cannot be proved are fixed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch

from ..budget import BUDGET
from ..errors import (
    ExportError,
    HxError,
    MissingConverters,
    VerificationError,
    is_environment_error,
)
from ..findings import CHECKED, OPEN, Finding
from ..ir import dynamic_axes
from ..ir.input_grammar import Limits
from ..ir.proposed_sizes import Proposal, propose, without, words_of
from ..ir.recipe import Recipe
from ..ir.request import Inputs, Request
from ..recording.other_inputs import with_other_inputs
from ..recording.recorder import Recorder
from ..recording.runner import ModelRunner
from ..recording.trace import Trace
from ..report import Report
from ..samples.sizes import sizes_of
from .size_trials import tried_sizes

T = TypeVar("T")


@dataclass(frozen=True)
class Exported(Generic[T]):
    """Result of one export, and the limits that it is promised within."""

    made: T
    report: Report
    promised: Mapping[str, Limits]


def seen_sizes(request: Request, others: Mapping[str, Inputs]) -> Proposal:
    """Return the sizes that differ between the user's calls."""
    calls = [request.call.tensors, *others.values()]
    return propose([{name: tuple(t.shape) for name, t in each.items()} for each in calls])


def found_by_trial(request: Request, recorder: Recorder) -> Proposal:
    """Record the model, and return the sizes that it accepts otherwise."""
    trace = recorder.record(Recipe(request, request.call.tensors), dry=True)
    return sizes_of_trace(trace, recorder)


def sizes_of_trace(trace: Trace, recorder: Recorder) -> Proposal:
    return tried_sizes(ModelRunner.of(recorder, trace))


@dataclass
class Proposed(Generic[T]):
    """A proposal that becomes smaller until its file is right."""

    request: Request
    others: Mapping[str, Inputs]
    sizes: Proposal
    seen: bool  # the user's calls have these sizes
    export: Callable[[Request], Exported[T]]
    notes: list[Finding] = field(default_factory=list)

    def proved(self) -> T:
        """Export with the proposed sizes, and with fewer of them if the proof refuses some."""
        found: tuple[Request, Exported[T]] | None = None
        for more in reversed(range(BUDGET.proposals.exports)):
            request = self._request()
            try:
                done = self.export(request)
            except (ExportError, VerificationError) as problem:
                if found is not None:
                    break  # the file that is there is right, within its promise
                words, why = self._to_blame(request, problem)
                if not (more and words):
                    raise
            else:
                found = request, done
                words = [word for word, limit in done.promised.items() if limit.single is not None]
                why = "the file could be proved at no other size"
                if not words or request.options.strict:
                    break
            self._fix(request, words, why)
        assert found is not None
        request, done = found
        done.report.messages += self.notes
        done.report.file.proposed = _with_limits(request, done.promised)
        return done.made

    def _to_blame(self, request: Request, problem: HxError) -> tuple[list[str], str]:
        """Return the names of sizes that an export may do without, and what went wrong."""
        if isinstance(problem, VerificationError):
            strict = request.options.strict
            return [] if strict else _wrong_sizes(
                request, problem
            ), "the file was wrong at other sizes"
        if self.seen or isinstance(problem, MissingConverters) or is_environment_error(problem):
            return [], ""
        return [*words_of(request.sizes)], f"the export failed: {problem.what}"

    def _request(self) -> Request:
        """Return the request with the sizes that are left, and the inputs that fit them."""
        tensors = self.request.call.tensors
        sizes = dynamic_axes.axes(self.sizes, tensors)
        request = replace(self.request, sizes=sizes)
        if self.seen and self.notes:
            fixed = words_of(seen_sizes(self.request, self.others))
            left = {axis for axes in words_of(self.sizes).values() for axis in axes}
            axes = [axis for each in fixed.values() for axis in each if axis not in left]
            fit = {k: each for k, each in self.others.items() if _alike(axes, tensors, each)}
            return with_other_inputs(request, fit)
        return with_other_inputs(request, self.others)

    def _fix(self, request: Request, words: Iterable[str], why: str) -> None:
        """Leave sizes out of the proposal, and note that they stay as they are."""
        tensors, axes = request.call.tensors, words_of(request.sizes)
        hint = "calls with another size there need a file of their own" if self.seen else ""
        for word in (word for word in words if word in axes):
            name, axis = axes[word][0]
            places = ", ".join(f"axis {axis} of {name}" for name, axis in axes[word])
            text = f"{word} stays {tensors[name].shape[axis]} ({places}): {why}"
            level = OPEN if self.seen else CHECKED
            self.notes.append(Finding(level, text, hint=hint))
        self.sizes = without(_plain(request), words)


def _plain(request: Request) -> Proposal:
    """Return the sizes of a request, with the limits that it came with."""
    return _with_limits(request, {})


def _with_limits(request: Request, promised: Mapping[str, Limits]) -> Proposal:
    limits = {**request.sizes.limits, **promised}
    single = [word for word, limit in limits.items() if limit.single is not None]
    kept = without({name: dict(axes) for name, axes in request.sizes.items()}, single)
    return {
        name: {
            axis: limits[word].written(word) if word in limits else word
            for axis, word in axes.items()
        }
        for name, axes in kept.items()
    }


def _wrong_sizes(request: Request, error: VerificationError) -> list[str]:
    """Return the names whose change makes the file wrong: alone, or else the fewest together.

    There are none if the file is wrong on the recorded sizes as well.
    """
    made: Any = None if error.report is None else error.report.made
    checks = [] if error.proof is None else error.proof.cases
    if made is None or not checks:
        return []
    recipe = made.subject.recipe
    recorded = sizes_of(recipe, request.call.tensors)
    changed = [
        [word for word, n in sizes_of(recipe, case.feeds).items() if n != recorded[word]]
        for case, check in zip(made.subject.cases, checks)
        if not check.ok
    ]
    if not changed or not all(changed):
        return []
    alone = [words[0] for words in changed if len(words) == 1]
    return list(dict.fromkeys(alone)) or min(changed, key=len)


def _alike(
    axes: Iterable[tuple[str, int]], a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]
) -> bool:
    return all(a[name].shape[axis] == b[name].shape[axis] for name, axis in axes)
