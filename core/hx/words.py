"""Things and numbers as they stand in a sentence: an int, a Linear, 2 nodes, 1.5 MB, 3 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def a(thing: Any) -> str:
    """By the name of its class."""
    if thing is None:
        return "None"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def amount(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def rounded(count: int) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return f"{count:,}"


def time_text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
