"""First calls of a model: does its state beside its modules change the results of the next?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import Where
from ..ir.request import Call
from ..recording.recorder import Recorder
from ..recording.runner import ModelRunner
from ..recording.runs.known_results import Returned
from ..recording.runs.varying_reads import lines_that_name
from ..recording.trace import Trace
from ..samples.variations import fresh
from ..torchworld.state.function_state import FunctionState
from .differences.compare import differ


def settle_state(recorder: Recorder, trace: Trace) -> None:
    """Find out after the first run of the model if the state that it changed matters.

    If it does, its names are added to the effects of the trace.
    """
    carried = recorder.carried
    first = carried.first
    if carried.matters is not None or first is None:
        return
    names = first.changed()
    matters = bool(names) and not trace.recipe.request.weights.hollow
    matters = matters and _matters(recorder, trace, first)
    if matters:
        first.restore()
        trace.effects.keeps += [name for name in names if name not in trace.effects.keeps]
    carried.settle(names if matters else [])


def carried_at(recorder: Recorder, call: Call) -> Where | None:
    """Return the line that binds, or reads, the state beside the modules that matters."""
    for name in recorder.carried.names:
        variable = name.partition("[")[0].rpartition(".")[2]
        if where := next(lines_that_name(call, variable), None):
            return where
    return None


def _matters(recorder: Recorder, trace: Trace, first: FunctionState) -> bool:
    """Compare runs that begin with the state of the first run, and with that of the next."""
    call, runner = trace.recipe.call, ModelRunner.of(recorder, trace)
    after = FunctionState(call.model, call.root)
    seed = 1 if trace.effects.drew else None  # else the random state would not be restored

    def ran(feeds: dict[str, torch.Tensor], begin: FunctionState) -> list[Any] | None:
        begin.restore()
        outcome = runner.run(feeds, seed)
        return outcome.results if isinstance(outcome, Returned) else None

    inputs = dict(trace.recipe.inputs)
    try:
        for feeds in (fresh(inputs, seed=1), inputs):
            one = ran(feeds, first)
            if _differ(one, ran(feeds, after)):
                return not _differ(one, ran(feeds, first))  # a clock differs, too
            if one is not None:
                break
    finally:
        after.restore()
    return False


def _differ(some: Sequence[Any] | None, others: Sequence[Any] | None) -> bool:
    if some is None or others is None:
        return some is not others
    return differ(some, others)
