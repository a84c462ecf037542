"""Table of the strategies of an export: cost and outcome of each, and all other time."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from hx.text import time_text

# Stages outside of all strategies, in a few words.
OUTSIDE = {
    "load": "imports, packs, the model",
    "prepare": "imports, checks of the call",
    "explain": "why the file is wrong",
    "search": "choice of the strategies",
}
PAGE_HEADS = ("strategy", "time", "recording", "writing", "proof", "outcome")
HEADS = ("strategy", "seconds", "record", "write", "proof", "outcome")
Row = tuple[str, float, float, float, float, str]


def rows(strategies: Sequence[dict[str, Any]], timings: dict[str, float]) -> list[Row]:
    """Return a row for each strategy, and for each stage outside of them; seconds add up.

    The columns are name, seconds, those of recording, writing and proof, and outcome.
    """
    found: list[Row] = [
        (s["name"], s["seconds"], s["recording"], s["writing"], s["proof"], s["outcome"])
        for s in strategies
    ]
    stages = [(name, timings[name]) for name in OUTSIDE if name in timings]
    return found + [(name, took, 0.0, 0.0, 0.0, OUTSIDE[name]) for name, took in stages]


def page_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table, with all cells as text, for a page."""
    return [
        [name, *(time_text(took) if took else "" for took in seconds), outcome]
        for name, *seconds, outcome in rows(found["strategies"], found["timings"])
    ]


def text(strategies: Sequence[dict[str, Any]], timings: dict[str, float], width: int) -> str:
    """Return the table for a terminal of this width, with a total; long texts are folded."""
    total: Row = ("total", timings["total"], 0.0, 0.0, 0.0, "")
    lines = [list(HEADS)]
    for name, *seconds, outcome in [*rows(strategies, timings), total]:
        lines.append([name, *(f"{took:.2f}" if took >= 0.005 else "" for took in seconds), outcome])
    sizes = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    room = max(width - sum(sizes[1:-1]) - 2 * (len(HEADS) - 1), 20)
    sizes[0] = min(sizes[0], max(room // 2, room - sizes[-1]))
    sizes[-1] = min(sizes[-1], room - sizes[0])
    lines[0] = [head.upper() for head in lines[0]]
    return "\n".join(line for cells in lines for line in _folded(cells, sizes))


def _folded(cells: list[str], sizes: list[int]) -> list[str]:
    """Return the lines of one row: the first and the last column are folded to their sizes."""
    name, outcome = (
        textwrap.wrap(cells[i], sizes[i], break_on_hyphens=False) or [""] for i in (0, -1)
    )
    found = []
    for i in range(max(len(name), len(outcome))):
        first = name[i] if i < len(name) else ""
        numbers = [n if i == 0 else "" for n in cells[1:-1]]
        columns = [first.ljust(sizes[0]), *(n.rjust(s) for n, s in zip(numbers, sizes[1:-1]))]
        found.append("  ".join([*columns, outcome[i] if i < len(outcome) else ""]).rstrip())
    return found
