"""Values that left the graph, and so are constants of the recording."""

from __future__ import annotations

from ...ir.escapes import DETOURS
from ...recording.calls import compiled_calls
from ..promises.promised import may_matter
from .rejected import Rejected


def left_the_graph(rejected: Rejected) -> list[str]:
    """List values that may be at fault at the sizes of the cases that failed."""
    subject, sizes = rejected.subject, rejected.failed_sizes
    blamed = [each for each in rejected.lost if may_matter(subject, each, sizes)]
    lines = [each.told() for each in blamed[:5]]
    more = len(blamed) - 5
    return [*lines, f"and {more} more values left the graph"] if more > 0 else lines


def target_to_convert(rejected: Rejected) -> list[str]:
    """Name the function that computes outside of torch, if a converter for it would help."""
    detours = [each for each in rejected.lost if each.kind in DETOURS]
    target = compiled_calls.target_at(detours[0].through or detours[0].where) if detours else ""
    if not target:
        return []
    return [
        "compute that with tensors, or write a converter for what does it: "
        f"hx packs new my-pack --target {target}"
    ]


def compiled_code(rejected: Rejected) -> list[str]:
    """Name compiled code that the model calls, whose own work is not recorded."""
    compiled = rejected.subject.trace.effects.compiled
    if not compiled:
        return []
    return [
        "compiled code is called directly, and what it computes by itself is not in the "
        f"graph: {', '.join(map(str, compiled[:3]))}; {compiled_calls.how(compiled[0])}"
    ]
