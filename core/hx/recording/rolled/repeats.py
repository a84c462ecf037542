"""Where in a row of nodes the same ones come again and again."""

from __future__ import annotations

from builtins import len, min, range  # their own: `world` hooks those of the model
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensors.values import Node
from .lengths import OFF, nodes_key


@dataclass(frozen=True)
class Repeat:
    """`times` rounds of `period` nodes each, the first at `start`; `length` says how many."""

    start: int
    period: int
    times: int
    length: Any  # in the graph: a size
    slack: int  # how much further on it may begin as well

    @property
    def end(self) -> int:
        return self.start + self.period * self.times


def repeats(nodes: list[Node], known: Mapping[int, int]) -> list[Repeat]:
    """Those that are as many as one of the `known` sizes, largest first; in the order of the nodes."""
    kinds: dict[Any, int] = {}
    keys = np.array([kinds.setdefault(nodes_key(node), len(kinds)) for node in nodes])
    found: list[Repeat] = []
    most = len(nodes) // max(1, min(known, default=1) - OFF)
    for period in range(1, most + 1):
        for start, end in _runs(keys[:-period] == keys[period:]):
            length = end - start + period
            for count, size in known.items():
                times = next(
                    (t for t in range(count, count - OFF - 1, -1) if t * period <= length), 0
                )
                slack = length - times * period
                if times > 2 and slack <= (OFF + 1) * period:
                    off = size + (times - count)
                    found.append(Repeat(start, period, times, off, slack))
                    break
    found.sort(key=lambda each: (-each.period * each.times, each.period))
    chosen: list[Repeat] = []
    for each in found:
        if not any(each.start < other.end and other.start < each.end for other in chosen):
            chosen.append(each)
    return sorted(chosen, key=lambda each: each.start)


def _runs(same: Any) -> Iterator[tuple[int, int]]:
    """From where to where all are the same."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist())
