"""Sizes that show more of a model than the given ones.

A batch of 1, two sizes of the same value, and a size equal to a constant of the model have answers
of their own (`batch != 1`, `n == m`). A file that is recorded there is wrong for most other sizes.
The first recording shows these questions, so such a size is changed before anything is proved: the
user's inputs are repeated, and become a case of the proof themselves.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator
from dataclasses import replace

from ..budget import BUDGET
from ..ir.input_grammar import Limits, NamedLimits
from ..ir.recipe import Recipe, Sizes, Sizing
from ..ir.size_moves import Move
from ..ir.sizes.comparisons import Asked, At
from ..proof.cases.across import Across
from ..proof.subject import Subject
from ..samples.sizes import limits_of, repeated_at, sizes_of

_EQUALITY = (operator.eq, operator.ne)


def at_informative_sizes(subject: Subject) -> Recipe | None:
    """Return the recipe at sizes that are less special to the model; None if there are none."""
    recipe = subject.recipe
    if recipe.sizing is not Sizing.OFFER or recipe.request.weights.streamed:
        return None
    words, limits = sizes_of(recipe), limits_of(recipe)
    questions = [
        asked
        for escape in subject.escapes.values()
        if not escape.carried and not escape.raises
        for asked in escape.asked
        if asked.compares and asked.is_of_named_sizes()
    ]
    sizes = _changed(words, limits, questions)
    if sizes == words:
        return None
    if Across(subject.trace.graph.work, words, limits).refused(Move(sizes), 0):
        return None  # it would take many times the work
    inputs = repeated_at(recipe, sizes)
    there = replace(recipe, sizing=Sizing.INFORMATIVE, inputs=inputs)
    return replace(there, also_proved={"given": recipe.inputs})


def _changed(words: Sizes, limits: NamedLimits, questions: Collection[Asked]) -> Sizes:
    """Return the sizes, with another one for each name that a question treats specially."""
    sizes = dict(words)
    for asked in questions:
        for word in _special(asked, sizes):
            for n in _others(sizes[word], limits[word]):
                there = {**sizes, word: n}
                if not any(_special(each, there) for each in questions if word in each.names()):
                    sizes = there
                    break
    return sizes


def _special(asked: Asked, sizes: Sizes) -> list[str]:
    """Return the names whose size leads to an answer of its own, which most others do not have."""
    answer = asked.answer_if_known(At(sizes))
    names = [word for word in sizes if word in asked.names()]
    if answer is None:
        return []
    ones = [word for word in names if sizes[word] == 1]
    if any(asked.answer_if_known(At({**sizes, word: 2})) != answer for word in ones):
        return ones
    equal = asked.ask in _EQUALITY and asked.answer_if_known(At(sizes), side=True) == 0
    return names[-1:] if equal else []


def _others(n: int, limit: Limits) -> Iterator[int]:
    """Yield larger sizes that are divided by the same powers of two, and 2 in place of 1."""
    if n == 1 and limit.hold(2):
        yield 2
    unit = math.lcm(n & -n, limit.step)
    for turn in range(1, BUDGET.proposals.in_place_of_special + 1):
        if limit.hold(n + 2 * turn * unit):
            yield n + 2 * turn * unit
