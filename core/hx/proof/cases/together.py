"""Sizes at which the answers to a model's questions combine in ways that occur nowhere else.

The nearest sizes with another answer may show nothing. A size cut to a multiple of four, where two
sizes differ, is whole at four; and code after an `if` may ask about the rest. So sizes are drawn at
random. From them, the module takes those that add the most new combinations of answers, one after
the other, weighed against the cost of computing there.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy

from ...budget import BUDGET
from ...ir.input_grammar import NamedLimits
from ...ir.size_moves import Move
from ...ir.sizes.comparisons import Asked, At
from ...ir.sizes.remainders import fits
from ...samples.sizes import Sizes, limits_of, sizes_of, told
from ..file_proof import Case
from ..subject import Subject
from .across import Across
from .case_source import Planned
from .othersizes import case_at

UNKNOWN = -2  # a side that is not known; the others are -1, 0 and 1
WORTH = 8  # worth of a question's answer, in multiples of that of a size's bit
BITS = 4  # bits of each size: the model may halve it as often
STAYS, MEETS = 0.25, 0.25  # shares of drawn sizes that stay as recorded, or are close to another
APART = 3  # close sizes differ by less


def together(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases with combinations of answers that none of the existing cases has."""
    questions = planned.questions
    asked = [each for each in questions if each.compares and each.names() and not each.of_values()]
    if not asked:
        return []
    recorded, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    seen = [recorded, *(sizes_of(subject.recipe, case.feeds) for case in planned.at_other_sizes)]
    drawn = _drawn(seen, limits)
    answers = _answers(asked[: BUDGET.combinations.questions], [*seen, *drawn])
    several = len(answers) > 1 or any(fits(each) is not None for each in answers)
    if not several and not any(recorded.keys() - each.names() for each in answers):
        return []  # a single threshold: both sides have been seen
    combined, worths = _combined([*answers.values()], [*seen, *drawn])
    known, new, worth = combined[: len(seen)], combined[len(seen) :], worths[len(seen) :]
    if not several:  # only the other answer counts
        ((one, sides),) = answers.items()
        here, *there = (_answer(one, side) for side in sides)
        worth = worth * [[answer is not here] for answer in there[len(seen) - 1 :]]
    met = numpy.zeros(int(combined.max()) + 1, dtype=bool)
    met[known] = True
    usual = max(1, math.prod(recorded.values()))
    work = numpy.array([math.prod(sizes.values()) / usual for sizes in drawn])
    work_of = subject.trace.graph.work
    limits_of_cases, times = BUDGET.combinations, BUDGET.work.combined_answers_factor
    most = limits_of_cases.cases_of_one
    if several:
        most = min(limits_of_cases.cases, limits_of_cases.cases_for_each * len(asked))
    across = Across(work_of, recorded, limits, most=most, times=min(times, len(asked)))
    found: list[Case] = []
    while True:
        gains = (~met[new] * worth).sum(1) / numpy.maximum(work, 1)
        best = int(gains.argmax())
        if not gains[best] or across.refused(Move(drawn[best]), len(found)):
            return found
        met[new[best]] = True
        others = {word: n for word, n in drawn[best].items() if n != recorded[word]}
        found += case_at(subject, drawn[best], told(others))[0]


def where_others_failed(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases at sizes where another graph of this model was wrong."""
    recipe, found = subject.recipe, list[Case]()
    elsewhere = (sizes_of(recipe, case.feeds) for case in planned.at_other_sizes)
    seen = [sizes_of(recipe), *elsewhere]
    # The last are of a graph that is more like this one.
    for sizes in reversed(subject.recorder.knowledge.wrong_sizes):
        if sizes not in seen and len(found) < BUDGET.runs.wrong_before:
            seen.append(sizes)
            found += case_at(subject, sizes, told(sizes))[0]
    return found


def _drawn(seen: Sequence[Sizes], limits: NamedLimits) -> list[Sizes]:
    """Draw sizes from 1 to about twice those seen, within the limits of each."""
    chance, found = random.Random(0), []
    for _ in range(BUDGET.combinations.drawn):
        sizes: Sizes = {}
        for word, n in chance.choice(seen).items():
            how, step = chance.random(), limits[word].step
            size = chance.randint(1, 2 * n + 8)
            if how < STAYS:
                size = n
            elif how < STAYS + MEETS and sizes:
                size = chance.choice([*sizes.values()]) + chance.randint(1 - APART, APART - 1)
            sizes[word] = max(step, size // step * step)
        if limits.hold(sizes):
            found.append(sizes)
    return found or [*seen[:1]]


def _answers(asked: Sequence[Asked], several: Sequence[Sizes]) -> dict[Asked, list[int]]:
    """Return the side of each question at each of the sizes, for those with several answers."""
    ats = [*map(At, several)]  # each keeps its results
    answers = {each: [_side(each, at) for at in ats] for each in asked}
    return {
        each: sides
        for each, sides in answers.items()
        if len({_answer(each, side) for side in sides}) > 1
    }


def _combined(
    answers: Sequence[list[int]], several: Sequence[Sizes]
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return, for each of these sizes, the combinations of answers, as numbers, and their worth.

    A combination is worth more, the more of its answers belong to questions, and less, the more of
    these differ from those at the first sizes: after another answer, the next question may not be
    asked.
    """
    bits = [
        [sizes[word] >> bit & 1 for sizes in several] for word in several[0] for bit in range(BITS)
    ]
    numbers = numpy.array([*answers, *bits]).T + 2
    others = numbers != numbers[0]
    places = numbers.shape[1]
    together = 3 if places <= BUDGET.combinations.threes else 2
    sets = [*itertools.combinations(range(places), together)]
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
    found = asked.answer_if_known(at, side=True)
    return UNKNOWN if found is None else int(found)
