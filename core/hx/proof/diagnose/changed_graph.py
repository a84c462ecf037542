"""Reasons outside the graph as recorded: a note of the proof, and passes that changed the graph."""

from __future__ import annotations

from ...packs import passes
from .rejected import Rejected


def found_otherwise(rejected: Rejected) -> list[str]:
    """Return the note of the proof about running the model in another way."""
    return [rejected.subject.otherwise] if rejected.subject.otherwise else []


def passes_of_packs(rejected: Rejected) -> list[str]:
    """List the graph passes that changed the graph, and the options that leave them out."""
    registry, rewrote = rejected.subject.recorder.registry, rejected.rewrote
    if not rewrote:
        return []
    names = ", ".join(f"{each.name} ({each.pack})" for each in rewrote)
    options = [passes.left_out(registry, each) for each in rewrote]
    without = " ".join(filter(None, dict.fromkeys(options)))
    line = f"graph passes of packs changed the graph before it was run: {names}"
    return [f"{line}; to see it without: {without}" if without else line]
