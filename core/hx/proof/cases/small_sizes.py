"""The smallest sizes that a model takes and that show something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...budget import BUDGET
from ...ir.recipe import Sizes
from ...ir.sizes.comparisons import At
from ...samples.sizes import at, limits_of, sizes_of, told
from .asking import case_of

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned


def is_heavy(subject: Subject) -> bool:
    """Return whether a run of the model takes noticeable time."""
    words = sizes_of(subject.recipe)
    return subject.trace.graph.work.beside(words).at(At(words)) > BUDGET.work.negligible


def one_row(subject: Subject, cases: Sequence[Case], sizes: Sizes) -> Sizes:
    """Return sizes with one row of a batch, where nothing is asked about it and the model takes it.

    The rows of a batch meet in the cases at other sizes.
    """
    recipe = subject.recipe
    taken = [sizes_of(recipe, case.feeds) for case in cases]
    asked = {word for e in subject.escapes.values() for each in e.asked for word in each.names()}
    places = [(w, axis) for axes in recipe.request.sizes.values() for axis, w in axes.items()]
    rows = {w for w, _ in places} - {w for w, axis in places if axis} - asked
    return {
        word: 1 if word in rows and any(each[word] == 1 for each in taken) else n
        for word, n in sizes.items()
    }


def small_sizes(subject: Subject) -> Sizes:
    """Return the smallest sizes that show something; the model may refuse them."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    found: Sizes = {}
    for word, n in words.items():
        step = limits[word].step
        low = max(limits[word].least, -(-BUDGET.far.smallest // step) * step)
        found[word] = min(low, n) if limits[word].hold(min(low, n)) else n
    return found


def least_taken(subject: Subject, planned: Planned) -> Sizes:
    """Return the smallest sizes that the model accepts in one call, or else the recorded ones.

    A picture has to be as large as the windows of a network. Names without a case that is as small
    grow to powers of two. If there are such cases for all names, a heavy model does not run only to
    tell that it takes all of them together.
    """
    if planned.small is None:
        planned.small = _least_taken(subject, planned)
    return planned.small


def _least_taken(subject: Subject, planned: Planned) -> Sizes:
    recipe, words, small = subject.recipe, sizes_of(subject.recipe), small_sizes(subject)
    taken = [words, *(sizes_of(recipe, case.feeds) for case in planned.at_other_sizes)]
    refused = {word for word, n in small.items() if all(each[word] > n for each in taken)}
    if is_heavy(subject) and not refused:
        return small
    while small != words and not case_of(subject, told(small), at(recipe, small))[0]:
        growing = {word for word in refused if small[word] < words[word]} or words.keys()
        for word in growing:
            step = limits_of(recipe)[word].step
            larger = -(-(1 << small[word].bit_length()) // step) * step
            small[word] = min(larger, words[word])
    return small
