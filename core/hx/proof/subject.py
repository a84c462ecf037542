"""Subject of a proof: a trace, runs of its model, and what the proof finds.

A proof does not change the trace. Its notes on values that left the graph are in copies of them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING

from ..findings import Finding
from ..ir.escapes import Escape
from ..ir.input_grammar import NamedLimits
from ..ir.recipe import Recipe, Sizes
from ..recording.recorder import Recorder
from ..recording.runner import ModelRunner
from ..recording.trace import Trace

if TYPE_CHECKING:
    from ..ir.size_moves import Move
    from .file_proof import Case


@dataclasses.dataclass
class Subject:
    """A trace whose file is proved, and what its proof has found so far."""

    trace: Trace
    recorder: Recorder
    runner: ModelRunner
    results: list  # of the model on the recorded inputs
    escapes: dict[tuple, Escape]  # values that left the graph, with what the proof says of them
    members: list[Subject]  # recordings on data that lead there
    forced_members: list[Subject]  # and with answers that are not true
    cases: list[Case] = dataclasses.field(default_factory=list)
    notes: list[Finding] = dataclasses.field(default_factory=list)
    # For cases made for a question: its escape, and the limits that exclude them.
    beyond: dict[str, tuple[Escape, Move]] = dataclasses.field(default_factory=dict)
    # For cases with other data than usual: the same data at other sizes.
    elsewhere: dict[str, Callable[[Sizes], list[Case]]] = dataclasses.field(default_factory=dict)
    # The limits, by name, of sizes for which the file is promised: the proof found others wrong.
    promised: NamedLimits = dataclasses.field(default_factory=NamedLimits)
    code_run: set[CodeType] = dataclasses.field(default_factory=set)  # where the file is wrong

    @classmethod
    def of(cls, trace: Trace, recorder: Recorder) -> Subject:
        # A member may share an escape with the trace that it was merged into.
        return cls._of(trace, recorder, {})

    @classmethod
    def _of(cls, trace: Trace, recorder: Recorder, copied: dict[int, Escape]) -> Subject:
        found = trace.escapes
        return cls(
            trace,
            recorder,
            ModelRunner.of(recorder, trace),
            trace.results,
            {k: copied.setdefault(id(each), copy.copy(each)) for k, each in found.items()},
            [cls._of(each, recorder, copied) for each in trace.merged.members],
            [cls._of(each, recorder, copied) for each in trace.merged.forced_members],
        )

    @property
    def recipe(self) -> Recipe:
        return self.trace.recipe

    def with_recipe(self, recipe: Recipe) -> Subject:
        """Return a subject that records and runs the model with another recipe."""
        trace = dataclasses.replace(self.trace, recipe=recipe)
        runner = dataclasses.replace(self.runner, recipe=recipe, trace=trace)
        return dataclasses.replace(self, trace=trace, runner=runner)
