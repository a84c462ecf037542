"""Things and numbers as they stand in a sentence: an int, a Linear, 2 nodes, 1.5 MB."""

from __future__ import annotations

from typing import Any


def a(thing: Any) -> str:
    """By the name of its class."""
    if thing is None:
        return "None"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def amount(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
