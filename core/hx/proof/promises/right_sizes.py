"""Promise of the sizes at which a file was right, where the search has nothing left to spend.

Otherwise a file that is right from half to twice the given sizes is promised at most (`promised`):
another recipe may give one that is right at all of them.
"""

from __future__ import annotations

from ...findings import CHECKED, Finding
from ...ir.input_grammar import Limits, NamedLimits
from ...samples.sizes import Sizes, sizes_of
from ..proof import CaseCheck, Proof
from ..subject import Subject
from .kept import Tried, kept
from .promised import mark_outside


def is_right_as_given(subject: Subject, proof: Proof) -> bool:
    """Return whether a file is wrong, and only at sizes other than those of the user's inputs."""
    users = {"recorded", *subject.recipe.also_proved, *subject.recipe.request.others}
    wrong = proof.wrong_cases
    if proof.checker or proof.problem or not wrong or any(check.name in users for check in wrong):
        return False
    given, at = sizes_of(subject.recipe, subject.recipe.given), _sizes(subject)
    return all(at.get(check.name, given) != given for check in wrong)


def keep_right_sizes(subject: Subject, proof: Proof, tried: Tried) -> None:
    """Promise the sizes around the given ones at which a file is right, if it is wrong at others."""
    if not is_right_as_given(subject, proof):
        return
    failed = proof.wrong_cases
    given = sizes_of(subject.recipe, subject.recipe.given)
    limits = NamedLimits(subject.recipe.request.sizes.limits)
    for word, limit in _around(subject, failed, given, limits).items():
        limit, found = kept(subject, word, limit, given, tried)
        limits[word] = limit if limit.hold(given[word]) else Limits(given[word], given[word])
        proof.cases += found
        failed += found
        subject.promised[word] = limits[word]
    if not mark_outside(subject, failed, limits):
        subject.promised.clear()
        return
    right = ", ".join(limit.briefly(word) for word, limit in subject.promised.items())
    text = f"the file is right for {right} only: at {failed[0].name} it is wrong, and no effort is left"
    subject.notes.append(Finding(CHECKED, text))


def _sizes(subject: Subject) -> dict[str, Sizes]:
    return {case.name: sizes_of(subject.recipe, case.feeds) for case in subject.cases}


def _around(
    subject: Subject, failed: list[CaseCheck], given: Sizes, limits: NamedLimits
) -> NamedLimits:
    """Return limits around the given sizes that exclude the wrong ones: of few names first."""
    found = NamedLimits()
    at = _sizes(subject)
    apart = [
        {word: n for word, n in at[check.name].items() if n != given[word]} for check in failed
    ]
    for other in sorted(apart, key=len):
        if not found.hold(other):
            continue
        word = max(other, key=lambda w: abs(other[w] - given[w]) / max(given[w], 1))
        n = other[word]
        limit = Limits(n + 1) if n < given[word] else Limits(0, n - 1)
        found[word] = found.get(word, limits[word]).and_also(limit)
    return found
