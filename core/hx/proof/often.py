"""How often the steps of a file are taken, one after the other: more often than it has nodes.

What may be off grows with the steps, and the body of a loop is in the file once: a recurrence over
a thousand rounds is a graph of ten nodes. The model itself tells how many operators it runs. And
where pictures are resized, between which places a number lies is worked out in float32: with each
place that an axis has, it is known less well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..sizes import dims
from .cases.asking import run
from .seeing import Seeing

if TYPE_CHECKING:
    from ..recording.capture import Capture
    from ..tensors.values import Node
    from .verify import Case

MOST = 64  # beyond that nothing would be proved: it is the same body, at smaller sizes too


PLACES = 3  # of an axis, which are squared: along twice as many, twice as much is off
FAR = 1000  # places beyond which nothing would be proved


class _Counting(Seeing):
    count = 0

    def see(self, result: Any) -> None:
        self.count += 1


def has_loop(graph: Any) -> bool:
    return any(
        node.op_type in ("Loop", "Scan")
        or any(has_loop(a.g) for a in node.attribute if a.HasField("g"))
        for node in graph.node
    )


def rounds(captured: Capture, graph: Any, case: Case) -> float:
    """How many times as many operators the model runs for that as the file has nodes."""
    with _Counting() as seen:
        run(captured, dict(case.feeds))
    return min(max(seen.count / max(_nodes(graph), 1), 1.0), MOST)


def between_places(captured: Capture) -> float:
    """As many steps as the longest axis stands for along which numbers are found between two others."""
    longest = max(map(_resized, captured.recording.builder.nodes), default=0)
    return (min(longest, FAR) / PLACES) ** 2


def _resized(node: Node) -> int:
    if node.op != "Resize" or node.attributes.get("mode") not in ("linear", "cubic"):
        return 0
    x = node.inputs[0]
    shape = x.shape if x is not None else None
    axes = node.attributes.get("axes") or range(len(shape or ()))
    return max((dims.plain(shape[axis]) for axis in axes), default=0) if shape else 0


def _nodes(graph: Any) -> int:
    return sum(
        1 + sum(_nodes(a.g) for a in node.attribute if a.HasField("g")) for node in graph.node
    )
