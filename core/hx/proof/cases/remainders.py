"""Sizes for a model that pads: what it asks of remainders is answered in many ways together.

Where it heard that something is left over at each of its layers, whatever is true, the graph has to be
right where nothing is left at some of them.
"""

from __future__ import annotations

import itertools
import random
from builtins import len  # its own: `world` hooks that of the model

from ...recording.capture import Capture
from ...sizes.asked import At
from ...sizes.leftover import fits
from ..verify import Case
from .othersizes import Sizes, case_at, limits_of, sizes_of, told

MOST = 6  # cases
DRAWN = 300  # sizes that are looked at
BITS = 4  # how often a size may be halved, where nobody knows what is made of it


def left_over_or_not(captured: Capture, cases: list[Case]) -> list[Case]:
    """Cases at which two answers come together that they do not in any of those that are there."""
    if captured.prepared.pads is None:
        return []
    asked = [
        each
        for escape in captured.recording.escapes.values()
        for each in escape.asked
        if fits(each) is not None
    ]

    def pairs(sizes: Sizes) -> set:
        at = At(sizes)
        answers = [each.heard(at) for each in asked]
        answers += [n >> bit & 1 for n in sizes.values() for bit in range(BITS)]
        return {*itertools.combinations(enumerate(answers), 2)}

    words, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    named = {word for each in asked for word in each.names()} or {*words}
    chance, drawn = random.Random(0), []
    for _ in range(DRAWN):
        sizes = dict(words)
        for word in named & sizes.keys():
            n, step = words[word], limits[word].step
            sizes[word] = max(step, chance.randint(n // 2, n * 3 // 2) // step * step)
        if all(limits[word].hold(n) for word, n in sizes.items()):
            drawn.append((sizes, pairs(sizes)))
    seen = set[tuple]().union(*(pairs(sizes_of(captured.prepared, c.feeds)) for c in cases))
    found: list[Case] = []
    for _ in range(2 * MOST):  # a model may refuse some of them
        sizes, new = max(drawn, key=lambda each: len(each[1] - seen), default=({}, set()))
        if not new - seen or len(found) == MOST:
            break
        seen |= new
        found += case_at(captured, sizes, told({w: n for w, n in sizes.items() if n != words[w]}))[
            0
        ]
    return found
