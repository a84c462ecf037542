"""Cases of further inputs that the user knows to be valid, and of sizes like theirs."""

from __future__ import annotations

from ...errors import ModelFailed, UsageError
from ...findings import CHECKED, Finding
from ...ir.input_grammar import NamedLimits
from ...ir.recipe import Sizes
from ...packs.pack_findings import brief
from ...samples.sizes import equal_sizes, limits_of, sizes_of, told
from ..file_proof import Case
from ..subject import Subject
from .case_source import Planned
from .othersizes import case_at


def given_inputs(subject: Subject, planned: Planned) -> list[Case]:
    """Return a case for each of the user's further inputs, as they are."""
    found = []
    for name, inputs in subject.recipe.request.others.items():
        try:
            results = subject.runner.known_results(dict(inputs))
        except ModelFailed as problem:
            error = problem.__cause__ or problem
            raise UsageError(
                f"the model refuses {name}: {brief(error)}",
                hint="further inputs have to be valid: call the model on them",
            ) from error
        found.append(Case(name, dict(inputs), results))
    return found


def at_equal_sizes(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases at sizes that keep equal what is equal in all inputs that the user gave.

    The model may refuse all others.
    """
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    others = [sizes_of(subject.recipe, each) for each in subject.recipe.request.others.values()]
    together = equal_sizes([words, *others])
    found: list[Case] = []
    for sizes in _kept_equal(words, limits, together) if together else ():
        found += case_at(subject, sizes, told(sizes))[0]
    if found:
        groups = " and ".join(" = ".join(group) for group in together)
        text = f"{groups} in all inputs that were given: other sizes were tried like that first"
        hint = "give them one name in dynamic= if they are never different"
        subject.notes.append(Finding(CHECKED, text, hint=hint))
    return found


def _kept_equal(words: Sizes, limits: NamedLimits, together: list[list[str]]) -> list[Sizes]:
    """Return larger sizes, and smaller ones, in which each group of names has one size."""
    found = []
    for change in (_larger, _smaller):
        sizes = dict(words)
        for group in together:
            n = change(words[group[0]], max(limits[word].step for word in group))
            if limits.hold(dict.fromkeys(group, n)):
                sizes.update(dict.fromkeys(group, n))
        if sizes != words:
            found.append(sizes)
    return found


def _larger(n: int, step: int) -> int:
    return n + 3 * step


def _smaller(n: int, step: int) -> int:
    return max(n // 2 // step, 1) * step
