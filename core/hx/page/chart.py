"""Chart of the error along the graph, as SVG that takes its colours from the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from hx.budget import BUDGET
from hx.page.phrases import share

WIDTH, HEIGHT = 1056, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 34


def by_depth(nodes: Sequence[dict[str, Any]]) -> str:
    """Draw every compared node: its error on a logarithmic scale, over its place."""
    dots = [(i, n) for i, n in enumerate(nodes) if n["error"] is not None or n["problem"]]
    dots = _fewer(dots)
    sizes = [n["error"] for _, n in dots if n["error"]]
    sizes += [n["allowed"] for _, n in dots if n["allowed"]]
    low = math.floor(math.log10(min(sizes))) if sizes else -8
    high = math.ceil(math.log10(max(sizes))) if sizes else -4
    low, high = max(low, -17), max(high, low + 2)
    last = max(len(nodes) - 1, 1)

    def x(i: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * i / last

    def y(error: float) -> float:
        part = (math.log10(max(error, 10.0**low)) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Error by node">']
    step = max(1, (high - low) // 6)
    for power in range(low, high + 1, step):
        at = y(10.0**power)
        label = "none" if power == low and any(not n["error"] for _, n in dots) else f"1e{power}"
        out.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        out.append(f'<text x="{LEFT - 10}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for i in _marks(last):
        anchor = "start" if i == 0 else "end" if i == last else "middle"
        out.append(
            f'<text x="{x(i):.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">'
            f"{'node ' if i == 0 else ''}{i + 1}</text>"
        )
    out += _limit(dots, x, y)
    for i, node in dots:
        off = bool(node["problem"])
        at = y(10.0**high if node["error"] is None else node["error"])
        told = f"{node['name']}: {node['problem'] or share(node['error'])}"
        mark = ' class="off"' if off else ""
        out.append(
            f'<circle{mark} cx="{x(i):.1f}" cy="{at:.1f}" r="{3.6 if off else 2.6}">'
            f"<title>{escape(told)}</title></circle>"
        )
    return "".join([*out, "</svg>"])


def _limit(dots: list, x: Any, y: Any) -> list[str]:
    """Draw the limit: a line through the median of each stretch."""
    allowed = [(i, n["allowed"]) for i, n in dots if n["allowed"]]
    if not allowed:
        return []
    stride = max(1, len(allowed) // 160)
    points = []
    for start in range(0, len(allowed), stride):
        part = allowed[start : start + stride]
        points.append((part[len(part) // 2][0], sorted(a for _, a in part)[len(part) // 2]))
    line = " ".join(f"{x(i):.1f},{y(a):.1f}" for i, a in points)
    i, a = points[-1]
    return [
        f'<polyline class="limit" points="{line}"/>',
        f'<text class="label" x="{x(i):.1f}" y="{y(a) - 8:.1f}" text-anchor="end">limit</text>',
    ]


def _fewer(dots: list) -> list:
    stride = -(-len(dots) // BUDGET.shown.dots) or 1
    if stride == 1:
        return dots
    parts = [dots[start : start + stride] for start in range(0, len(dots), stride)]
    return [max(part, key=lambda d: (bool(d[1]["problem"]), d[1]["error"] or 0)) for part in parts]


def _marks(last: int) -> list[int]:
    return sorted({round(last * part / 4) for part in range(5)})
