"""Limits for runs of a model on inputs that the user did not give, and a test for long runs."""

from __future__ import annotations

import math

from ...budget import BUDGET
from ...ir.request import Inputs
from ...ir.sizes.comparisons import At
from ...samples.sizes import sizes_of
from ...torchworld.modes.line_limit import LineLimit
from ..origins import is_machinery
from ..trace import Trace


def line_limit(trace: Trace, gave_up: bool) -> LineLimit | None:
    """Return the limit for one run; None for a model without escapes, which always ends.

    It is lower after a run that was aborted.
    """
    if not trace.escapes:
        return None
    # A model told to go on has run far more rounds in the recording than it does by itself.
    times = BUDGET.work.lines_per_node if trace.recipe.flow.until is None else 1
    work = BUDGET.work.unfinished_run * (BUDGET.work.unfinished_again if gave_up else 1)
    nodes = len(trace.nodes)
    limit = max(times * nodes, work / work_of_line(trace))
    return LineLimit(limit, is_machinery)


def work_of_line(trace: Trace) -> float:
    """Return the work of a line of the model: the average of a node in its recording."""
    nodes = len(trace.nodes)
    return max(trace.graph.work.at(At({})) / nodes, 1 << 14) if nodes else 1 << 14


def times_as_much(trace: Trace, tensors: Inputs) -> float:
    """Return the work of a run in runs on the recorded inputs, or in runs that take no time."""
    if not trace.recipe.request.sizes.keys() <= tensors.keys():
        return 1
    recorded, sizes = sizes_of(trace.recipe), sizes_of(trace.recipe, tensors)
    if all(sizes[word] <= n for word, n in recorded.items()):
        return 1
    work = trace.graph.work.beside(recorded)
    return work.at(At(sizes)) / max(work.at(At(recorded)), BUDGET.work.negligible)


def is_long(trace: Trace, lines: int) -> bool:
    """Return True if a run of so many lines was so long that a larger one may take too long."""
    return lines * work_of_line(trace) > BUDGET.work.longer_run


def rounds_fit(trace: Trace, more: float) -> bool:
    """Return True if `more` times as many rounds fit into one run of the model."""
    work = trace.graph.work.at(At({}))
    return math.isfinite(more) and work * more <= BUDGET.work.rounds_together
