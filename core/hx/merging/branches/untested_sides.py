"""Constants from data on sides that no known data lead to.

Such a side is recorded on data that do not lead there. A value that is read there and comes back as
a plain number is always wrong behind that question. It shows when the same way is recorded once
more on other data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import torch

from ...errors import Unsupported
from ...ir.escapes import Escape
from ...ir.value import Constant, Node, Value
from ...recording.rounds.loop_lengths import same_constant
from ...recording.trace import Trace
from ..protocol import Merge, NotRecorded, RecordingWanted, Unmerged
from ..same_nodes import paired_bodies
from .joined_findings import is_lost
from .node_rows import answers_of

FAR_VALUES_FACTOR = 1000


def find_baked(
    recordings: Iterable[Trace], others: Sequence[dict[str, torch.Tensor]]
) -> Merge[Unmerged | None]:
    """Return why not to merge, if a constant on an untested side depends on the inputs."""
    for trace in recordings:
        found = yield from _baked(trace, others)
        if found is not None:
            error = Unsupported(
                "one side of the branch would hold a number from inputs that never lead there",
                where=found.where,
                why=str(found),
            )
            return Unmerged(error, found.where)
    return None


def _baked(trace: Trace, others: Sequence[dict[str, torch.Tensor]]) -> Merge[Escape | None]:
    """Return an escape of a forced recording if its constants differ on other data."""
    if not trace.recipe.forced:
        return None
    lost = [each for each in trace.escapes.values() if is_lost(each)]
    for tensors in (*others, _far(trace.recipe.inputs)) if lost else ():
        recipe = dataclasses.replace(trace.recipe, inputs=tensors)
        again = yield RecordingWanted(recipe)
        if isinstance(again, NotRecorded):
            continue  # the model may refuse these inputs
        if answers_of(again) == answers_of(trace) and not _alike(trace.nodes, again.nodes):
            return lost[0]
    return None


def _far(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Scale the floating-point inputs by a large factor."""
    return {key: t * FAR_VALUES_FACTOR if t.is_floating_point() else t for key, t in inputs.items()}


def _alike(some: list[Node], others: list[Node]) -> bool:
    """Return True if both compute the same with the same constants."""
    return len(some) == len(others) and all(map(_same, some, others))


def _same(a: Node, b: Node) -> bool:
    bodies = paired_bodies(a, b)
    if bodies is None or not all(map(_equal, a.inputs, b.inputs)):
        return False
    return all(_alike(x.nodes, y.nodes) for x, y in bodies)


def _equal(a: Value | None, b: Value | None) -> bool:
    """Compare constants; computed values are compared by their nodes."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.name == b.name != "" or same_constant(a, b)
    return isinstance(a, Constant) is isinstance(b, Constant)
