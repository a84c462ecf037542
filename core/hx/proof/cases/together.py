"""Sizes at which what a model asks of them is answered in ways that come together nowhere else.

The nearest sizes with another answer may be ones where that shows nothing: what is cut to a multiple of
four, where two sizes differ, is whole at four; and what follows an `if` may ask of what is left then.
So sizes are drawn by chance, and of these are taken, one after the other, those at which the most
answers come together that did not before, for what is computed there.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence

import numpy

from ...inputs.grammar import Limits
from ...recording.capture import Capture
from ...sizes.asked import Asked, At
from ...sizes.leftover import fits
from ..verify import Case
from .across import Across, Move
from .othersizes import Sizes, case_at, limits_of, sizes_of, told
from .work import Work

EACH, MOST = 8, 40  # cases for each question, and for all
ALONE = 2  # of one question: what is done then may be of another size than it asks of
TIMES = 4  # as much work as at the recorded sizes, for all; and once for each question
FAILED = 8  # sizes at which another graph was wrong, the last ones first
QUESTIONS = 40
UNKNOWN = -2  # on which side of a question sizes are; else it is -1, 0 or 1
FEW = 20  # answers, of which three are looked at together, and not two
DRAWN = 256  # sizes that are looked at
WORTH = 8  # times as much as that a size is even
BITS = 4  # how often a size may be halved, where nobody knows what is made of it
STAYS, MEETS = 0.25, 0.25  # of the drawn sizes: one as recorded, one about as large as another
APART = 3  # what is about as large differs by less


def together(captured: Capture, cases: Sequence[Case], asked: Iterable[Asked]) -> list[Case]:
    """Cases at which answers come together that do not in any of those that are there."""
    asked = [each for each in asked if each.compares and each.names() and not each.of_values()]
    if not asked:
        return []
    recorded, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    seen = [recorded, *(sizes_of(captured.prepared, case.feeds) for case in cases)]
    drawn = _drawn(seen, limits)
    answers = _answers(asked[:QUESTIONS], [*seen, *drawn])
    several = len(answers) > 1 or any(fits(each) is not None for each in answers)
    if not several and not any(recorded.keys() - each.names() for each in answers):
        return []  # of one threshold, both sides are seen
    combined, worths = _combined([*answers.values()], [*seen, *drawn])
    known, new, worth = combined[: len(seen)], combined[len(seen) :], worths[len(seen) :]
    if not several:  # of the other answer alone
        ((one, sides),) = answers.items()
        here, *there = (_answer(one, side) for side in sides)
        worth = worth * [[answer is not here] for answer in there[len(seen) - 1 :]]
    met = numpy.zeros(int(combined.max()) + 1, dtype=bool)
    met[known] = True
    usual = max(1, math.prod(recorded.values()))
    work = numpy.array([math.prod(sizes.values()) / usual for sizes in drawn])
    work_of = Work(captured.recording.builder.nodes)
    most, times = min(MOST, EACH * len(asked)) if several else ALONE, min(TIMES, len(asked))
    across = Across(work_of, recorded, limits, most=most, times=times)
    found: list[Case] = []
    while True:
        gains = (~met[new] * worth).sum(1) / numpy.maximum(work, 1)
        best = int(gains.argmax())
        if not gains[best] or across.refused(Move(drawn[best]), len(found)):
            return found
        met[new[best]] = True
        others = {word: n for word, n in drawn[best].items() if n != recorded[word]}
        found += case_at(captured, drawn[best], told(others))[0]


def where_others_failed(captured: Capture, cases: Sequence[Case]) -> list[Case]:
    """Cases at sizes where the graph was wrong that was made of this model in another way."""
    prepared, found = captured.prepared, list[Case]()
    seen = [sizes_of(prepared), *(sizes_of(prepared, case.feeds) for case in cases)]
    for sizes in prepared.wrong_at[::-1]:  # the last are of a graph that is more like this one
        if sizes not in seen and len(found) < FAILED:
            seen.append(sizes)
            found += case_at(captured, sizes, told(sizes))[0]
    return found


def _drawn(seen: Sequence[Sizes], limits: Mapping[str, Limits]) -> list[Sizes]:
    """Sizes from one to twice as large as some that were seen, which the inputs may have together."""
    chance, found = random.Random(0), []
    for _ in range(DRAWN):
        sizes: Sizes = {}
        for word, n in chance.choice(seen).items():
            how, step = chance.random(), limits[word].step
            size = chance.randint(1, 2 * n + 8)
            if how < STAYS:
                size = n
            elif how < STAYS + MEETS and sizes:
                size = chance.choice([*sizes.values()]) + chance.randint(1 - APART, APART - 1)
            sizes[word] = max(step, size // step * step)
        if all(limits[word].hold(n) for word, n in sizes.items()):
            found.append(sizes)
    return found or [*seen[:1]]


def _answers(asked: Sequence[Asked], several: Sequence[Sizes]) -> dict[Asked, list[int]]:
    """On which side each question is at each of these sizes, of those with more than one answer."""
    ats = [*map(At, several)]  # each keeps what it has worked out
    answers = {each: [_side(each, at) for at in ats] for each in asked}
    return {
        each: sides
        for each, sides in answers.items()
        if len({_answer(each, side) for side in sides}) > 1
    }


def _combined(
    answers: Sequence[list[int]], several: Sequence[Sizes]
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """For each of these sizes, which answers come together, a number for each that do; and what
    these are worth: the more of them are of questions, the more, and the less, the more of these are
    others than at the first sizes. Where one has another answer, the next may not be asked."""
    bits = [
        [sizes[word] >> bit & 1 for sizes in several] for word in several[0] for bit in range(BITS)
    ]
    numbers = numpy.array([*answers, *bits]).T + 2
    others = numbers != numbers[0]
    places = numbers.shape[1]
    sets = [*itertools.combinations(range(places), 3 if places <= FEW else 2)]
    codes = numpy.empty((len(several), len(sets)), dtype=numpy.int64)
    worth = numpy.empty((len(several), len(sets)))
    for i, some in enumerate(sets):
        codes[:, i] = i
        for place in some:
            codes[:, i] = codes[:, i] * 4 + numbers[:, place]
        questions = [place for place in some if place < len(answers)]
        worth[:, i] = WORTH ** len(questions) / 2.0 ** others[:, questions].sum(1)
    return numpy.unique(codes, return_inverse=True)[1].reshape(codes.shape), worth


def _answer(asked: Asked, side: int) -> bool | None:
    return None if side == UNKNOWN else bool(asked.ask(side, 0))


def _side(asked: Asked, at: At) -> int:
    found = asked.heard(at, side=True)
    return UNKNOWN if found is None else int(found)
