"""Sizes at which what a model asks of them is answered in many ways together.

The nearest sizes with another answer may be ones where that shows nothing: what is cut to a multiple of
four, where two sizes differ, is whole at four. And a model that heard that something is left over at
each of its layers, whatever is true, has to be right where nothing is left at some of them.
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

MOST, FEW = 6, 3  # cases: of a model that pads, and of others
QUESTIONS = 40
DRAWN = 300  # sizes that are looked at
BITS = 4  # how often a size may be halved, where nobody knows what is made of it


def left_over_or_not(captured: Capture, cases: list[Case]) -> list[Case]:
    """Cases at which two answers come together that they do not in any of those that are there."""
    most = FEW if captured.prepared.pads is None else MOST
    asked = [
        each
        for escape in captured.recording.escapes.values()
        if escape.kind == "branch"
        for each in escape.asked
        if each.compares and each.names()
    ][:QUESTIONS]
    if not any(fits(each) is not None for each in asked):
        return []

    def pairs(sizes: Sizes) -> set:
        at = At(sizes)
        answers = [each.heard(at) for each in asked]
        answers += [n >> bit & 1 for n in sizes.values() for bit in range(BITS)]
        return {*itertools.combinations(enumerate(answers), 2)}

    words, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    chance, drawn = random.Random(0), []
    for _ in range(DRAWN):
        sizes = dict(words)
        for word, n in words.items():
            step = limits[word].step
            sizes[word] = max(step, chance.randint(n // 2, n * 3 // 2) // step * step)
        if all(limits[word].hold(n) for word, n in sizes.items()):
            drawn.append((sizes, pairs(sizes)))
    fitting = [each for each in asked if fits(each) is not None]
    if all(len({each.heard(At(sizes)) for sizes, _ in drawn}) < 2 for each in fitting):
        return []  # they say the same of all of these
    seen = set[tuple]().union(*(pairs(sizes_of(captured.prepared, c.feeds)) for c in cases))
    found: list[Case] = []
    for _ in range(2 * most):  # a model may refuse some of them
        sizes, new = max(drawn, key=lambda each: len(each[1] - seen), default=({}, set()))
        if not new - seen or len(found) == most:
            break
        seen |= new
        others = {word: n for word, n in sizes.items() if n != words[word]}
        found += case_at(captured, sizes, told(others))[0]
    return found
