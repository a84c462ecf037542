"""Protocol of a merge: a generator that yields wanted recordings and receives them.

A merge does not know the model. The caller that drives it makes the recordings; a test may send
recordings that were made before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ..errors import Where
from ..ir.recipe import Recipe
from ..recording.trace import Trace

Result = TypeVar("Result")


@dataclass(frozen=True)
class RecordingWanted:
    recipe: Recipe
    merged: bool = False  # merge the control flow of its recipe, too


@dataclass(frozen=True)
class NotRecorded:
    """An error of the model, or of a converter that only this recording needs."""

    error: Exception


@dataclass(frozen=True)
class Unmerged:
    """Result of a merge whose recordings do not become one graph."""

    error: Exception
    # The line of a constant on one side of a branch, recorded from inputs that never reach that side.
    baked_at: Where | None = None
    unfolded: bool = False  # its recordings were unfolded, whatever the recipe said


Reply: TypeAlias = Trace | NotRecorded
Merge: TypeAlias = Generator[RecordingWanted, Reply, Result]


def carry_out(merge: Merge[Result], record: Callable[[RecordingWanted], Reply]) -> Result:
    """Drive a merge: make the recordings that it asks for, and return its result."""
    try:
        wanted = next(merge)
        while True:
            wanted = merge.send(record(wanted))
    except StopIteration as end:
        return end.value
