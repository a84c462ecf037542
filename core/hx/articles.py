"""Things by the name of their class, as they stand in a sentence: an int, a Linear, None."""

from __future__ import annotations

from typing import Any


def a(thing: Any) -> str:
    if thing is None:
        return "None"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"
