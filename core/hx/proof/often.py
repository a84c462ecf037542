"""How often the steps of a file are taken, one after the other, where a loop in it goes round.

What may be off grows with the steps, and the body of a loop is in the file once: a recurrence over
a thousand rounds is a graph of ten nodes. The model itself tells how many operators it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cases.asking import run
from .seeing import Seeing

if TYPE_CHECKING:
    from ..recording.capture import Capture
    from .verify import Case

MOST = 64  # beyond that nothing would be proved: it is the same body, at smaller sizes too


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


def _nodes(graph: Any) -> int:
    return sum(
        1 + sum(_nodes(a.g) for a in node.attribute if a.HasField("g")) for node in graph.node
    )
