"""Number of steps that a file takes one after the other: it may be more than its nodes.

The accepted error grows with the steps, and the body of a loop is in the file once: a recurrence
over a thousand rounds is a graph of ten nodes. A run of the model tells how many operators it runs.
Resizing of images computes in float32 between which places a number lies: the more places an axis
has, the less exact the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...graph.file_nodes import all_nodes
from ...ir.sizes import dims
from ...torchworld.modes.operator_modes import Seeing

if TYPE_CHECKING:
    from ...ir.value import Node
    from ..file_proof import Case
    from ..subject import Subject

LARGEST_FACTOR = (
    64  # limit: a larger factor would prove nothing, and smaller sizes run the same body
)


PLACES_PER_STEP = 3  # places per step, before squaring: the error doubles with the number of places
LONGEST_AXIS = 1000  # limit: more places would prove nothing


class _Counting(Seeing):
    count = 0

    def see(self, result: Any) -> None:
        self.count += 1


def has_loop(graph: Any) -> bool:
    return any(node.op_type in ("Loop", "Scan") for node in all_nodes(graph))


def rounds(subject: Subject, graph: Any, case: Case) -> float:
    """Return the operators that the model runs in a case, divided by the nodes of the file."""
    with _Counting() as seen:
        subject.runner.results(dict(case.feeds))
    return min(max(seen.count / max(sum(1 for _ in all_nodes(graph)), 1), 1.0), LARGEST_FACTOR)


def between_places(subject: Subject) -> float:
    """Return the steps that count for the longest axis along which numbers are interpolated."""
    longest = max(map(_resized, subject.trace.nodes), default=0)
    return (min(longest, LONGEST_AXIS) / PLACES_PER_STEP) ** 2


def _resized(node: Node) -> int:
    if node.op != "Resize" or node.attributes.get("mode") not in ("linear", "cubic"):
        return 0
    x = node.inputs[0]
    shape = x.shape if x is not None else None
    axes = node.attributes.get("axes") or range(len(shape or ()))
    return max((dims.plain(shape[axis]) for axis in axes), default=0) if shape else 0
