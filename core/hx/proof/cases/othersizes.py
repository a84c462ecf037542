"""Other sizes that an export is proved at."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import torch

from ...budget import BUDGET
from ...findings import CHECKED, Finding
from ...ir.recipe import Sizes
from ...ir.size_moves import Move
from ...ir.sizes.dims import Dim
from ...samples.sizes import at, larger, limits_of, sizes_of, told, twice
from ..file_proof import Case
from ..subject import Subject
from .across import Across
from .asking import case_of
from .case_source import Planned

_DIVIDED = frozenset(("div", "mod", "floor", "ceil", "round", "trunc"))
APART = (1, 2, 5, 11)  # differences between the sizes at which a model is recorded once more


def case_at(subject: Subject, sizes: Sizes, name: str) -> tuple[list[Case], list[str]]:
    """Run the model at other sizes; return no case, and a note, if it refuses them.

    Numbers that looked like positions may be tokens or classes, of which there are no more. So
    before a model counts as refusing a size, they are repeated.
    """
    tensors = at(subject.recipe, sizes)
    case, refused = case_of(subject, name, tensors)
    if refused:
        others = at(subject.recipe, sizes, counted=False)
        if any(_differ(tensors[key], other) for key, other in others.items()):
            case, again = case_of(subject, name, others)
            refused = refused if again else []
    return case, refused


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not a.is_complex() and bool((a.double() != b.double()).any())


def other_sizes(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases at two other sizes of every dynamic name: a larger one, and the smallest.

    In the first case, all sizes are larger. If the model refuses that (it needs a multiple of 32,
    or a table of positions ends), it runs at other sizes of each name alone; refusals are noted.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    if not words:
        return []
    subject.notes += [
        Finding(CHECKED, f"{limit.in_words(word)}: no other size was tried")
        for word, limit in subject.recipe.request.sizes.limits.items()
    ]
    more = {w: n if limits[w].hold(n) else words[w] for w, n in larger(words, limits).items()}
    cases = _all_larger(subject, planned, more)
    if any(e.kind == "range" and not e.carried for e in subject.escapes.values()):
        cases += _odd_differences(subject, planned, more)
    cases += _each_alone(subject, planned, more, any(other_rank(subject, case) for case in cases))
    cases += _doubled(subject, cases)
    return list({case.name: case for case in cases}.values())


def round_sizes(subject: Subject, planned: Planned) -> list[Case]:
    """Return a case in which each size is a multiple of 8, all of them different, if sizes are divided.

    A picture that is halved or resized by a whole factor takes another way there than elsewhere. Such
    sizes are common among users, and rare among those that are one or two larger than recorded.
    """
    values = (value for node in subject.trace.nodes for value in node.outputs)
    if not any(_is_divided(size) for value in values for size in value.shape or ()):
        return []
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    sizes: dict[str, int] = {}
    for word, n in words.items():
        step = math.lcm(8, limits[word].step)
        sizes[word] = n if n and n % step == 0 else (n // step + 1) * step
        while sizes[word] in list(sizes.values())[:-1]:
            sizes[word] += step
    known = [sizes_of(subject.recipe, each.feeds) for each in planned.at_other_sizes]
    if not limits.hold(sizes) or sizes in (words, *known) or other_ranks(subject, planned):
        return []
    work, within = subject.trace.graph.work.beside(words), subject.recipe.request.sizes.limits
    if Across(work, words, within, times=BUDGET.far.work_factor).refused(Move(sizes), 0):
        return []
    return case_at(subject, sizes, told(sizes))[0]


def _is_divided(size: Any) -> bool:
    """Return whether a size is computed with a quotient, a remainder, or a rounded number."""
    return type(size) is Dim and any(
        atom.kind in _DIVIDED for product in size.poly.terms for atom in product
    )


def other_ranks(subject: Subject, planned: Planned) -> bool:
    """Return whether results have another number of axes at some sizes: then no graph is right."""
    return any(other_rank(subject, case) for case in planned.at_other_sizes)


def _all_larger(subject: Subject, planned: Planned, more: Sizes) -> list[Case]:
    """Return a case at these sizes; if the model refuses it, cases where one name changes."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    cases, refused = case_at(subject, more, told(more))
    if refused:
        planned.refused.append(more)
        for word, n in words.items():
            sizes = dict.fromkeys((more[word], 2 * n, n // 2, n - limits[word].step))
            others = [s for s in sizes if s > 1 and limits[word].hold(s)]
            cases += _first(subject, planned, words, word, others)
    return cases


def _odd_differences(subject: Subject, planned: Planned, more: Sizes) -> list[Case]:
    """Return cases one size apart: an even number of further rounds may change nothing."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    cases: list[Case] = []
    for word, n in words.items():
        if (more[word] - n) % 2 == 0 and limits[word].step == 1:
            near = [size for size in (n + 1, n - 1) if limits[word].hold(size)]
            cases += _first(subject, planned, words, word, near)
    return cases


def _each_alone(subject: Subject, planned: Planned, more: Sizes, other_axes: bool) -> list[Case]:
    """Return cases at the smallest size of each name, or else at another one.

    If results have other axes elsewhere, no graph can be right, and each further axis costs much
    more: then only smaller sizes are tried.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    cases: list[Case] = []
    for word, n in words.items():
        others = [limits[word].least, n // 2, 3 * n] if n != 1 else [more[word] + 1, 4]
        others = [s for s in others if s and s != n and limits[word].hold(s)]
        cases += _first(
            subject, planned, words, word, [s for s in others if s < n or not other_axes]
        )
    return cases


def _doubled(subject: Subject, cases: list[Case]) -> list[Case]:
    """Return a case with everything twice, if some size was the same in all cases."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    ran = [sizes_of(subject.recipe, case.feeds) for case in cases]
    if all(any(sizes[word] != n for sizes in ran) for word, n in words.items()):
        return []
    double = {word: 2 * n if limits[word].hold(2 * n) else n for word, n in words.items()}
    return case_of(subject, told(double), twice(subject.recipe, double))[0]


def other_rank(subject: Subject, case: Case) -> bool:
    """Return True if a result has another number of axes than was recorded."""
    pairs = zip(subject.results, case.expected)
    return any(torch.as_tensor(a).dim() != torch.as_tensor(b).dim() for a, b in pairs)


def _first(
    subject: Subject, planned: Planned, words: Sizes, word: str, sizes: list[int]
) -> list[Case]:
    """Return a case at the first of these sizes of one name that the model accepts."""
    notes: list[str] = []
    case: list[Case] = []
    for size in sizes:
        case, refused = case_at(subject, {**words, word: size}, told({word: size}))
        if case:
            break
        notes += refused
        planned.refused += [{**words, word: size}] if refused else []
    subject.notes += [] if case else [Finding(CHECKED, text) for text in notes[:1]]
    return case


def steps_between(subject: Subject, case: Case, right: Iterable[Case]) -> Sizes:
    """Return, by name, a number that divides the recorded size, but not the size in the case.

    A model that halves its sizes and doubles them again often behaves differently there. Of several
    numbers, this takes the one that the model asks about (`h % 4 != 0`), or else the most common
    one. A name is left out if a case was right where it alone had such a size.
    """
    recorded, found = sizes_of(subject.recipe), {}
    fine = [sizes_of(subject.recipe, each.feeds) for each in right]
    escapes = subject.escapes.values()
    asked = [int(s) for each in escapes for s in re.findall(r"%(\d+)\)", each.detail)]
    for word, size in sizes_of(subject.recipe, case.feeds).items():
        n = recorded[word]
        steps = [s for s in (*asked, 8, 16, 32, 64, 4, 2) if s and n % s == 0 and size % s]
        alone = [each[word] for each in fine if each == {**recorded, word: each[word]}]
        blamed = steps and not any(size % steps[0] for size in alone)
        if blamed and n > 2:  # a batch of two is not even on purpose
            found[word] = steps[0]
    return found
