"""Choice of the sessions that prove a file: with onnxruntime's optimisations, or without.

onnxruntime maps the weights of a data file, and copies those that it rewrites when it optimises a
graph: all of them, at worst. Without optimisations it needs them one at a time, and the system
can let go of what is mapped. The size of the weights decides, so that a proof is the same on any
machine. If the memory does not suffice, the proof is an error.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...budget import BUDGET
from ...free_memory import require_memory


def is_optimised(source: str | os.PathLike | bytes) -> bool:
    """Return whether a file runs with onnxruntime's optimisations; raise if memory is too short."""
    limit = BUDGET.bytes.optimised_weights
    if isinstance(source, (str, os.PathLike)) and _folder_size(Path(source)) < limit // 2:
        return True
    inside, outside = _weights(source)
    total, largest = sum(inside) + sum(outside), max(outside, default=0)
    if total <= limit // 2:
        return True  # so little that the system itself may report a shortage
    optimised = total <= limit
    # Contents of the file itself are read and copied in any mode.
    need = 2 * total if optimised else 2 * sum(inside) + 4 * largest
    mapped = 0 if optimised else sum(outside)
    require_memory("the proof of the file", need + BUDGET.bytes.beside_weights, mapped)
    return optimised


def _folder_size(path: Path) -> int:
    """Return an upper limit for the size of a file with its weights: the size of its folder."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(path.parent) if entry.is_file())
    except OSError:
        return BUDGET.bytes.optimised_weights


def _weights(source: str | os.PathLike | bytes) -> tuple[list[int], list[int]]:
    """Return the sizes of the weights in a file, and of those beside it."""
    from ...saving.model_file import weight_sizes

    try:
        return ([len(source)], []) if isinstance(source, bytes) else weight_sizes(Path(source))
    except (ValueError, OSError):  # no model: other checks have a better message
        return [], []
