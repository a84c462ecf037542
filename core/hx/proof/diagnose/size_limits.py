"""Limits of sizes with which the file would be right."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.escapes import ANSWERS
from ...ir.input_grammar import Limits
from ...ir.size_moves import Move
from ...samples.sizes import sizes_of
from ..cases.othersizes import steps_between
from ..promises.promised import ruled_out
from .names_of_one_size import names_of_one_size
from .rejected import Rejected


def limits_that_help(rejected: Rejected) -> list[str]:
    """Return the first advice that applies; None ends the list."""
    for advice in ADVICE:
        lines = advice(rejected)
        if lines is not None:
            return lines
    return []


def _one_name(rejected: Rejected) -> list[str] | None:
    """Give sizes one name that have to be the same."""
    case, proof = rejected.case, rejected.proof
    if case is None or "=" not in case.name or not proof.cases[0].ok:
        return None
    groups = names_of_one_size(rejected.subject, rejected.path, rejected.kernels)
    if not groups:
        return None
    named = "; ".join(" and ".join(group) for group in groups)
    return [f"sizes that have to be the same want one name: {named}"]


def _sizes_beyond(rejected: Rejected) -> list[str] | None:
    """Rule out the sizes at which a question of the model has another answer."""
    question, move = rejected.crossed
    if move is None or not move.limits or not rejected.rules_out_no_failure(move):
        return None
    if not (_is_crossed(rejected) or _has_a_smaller_size(rejected)):
        return None
    lines = _advice(move, "sizes that never come can be ruled out")
    if question is not None and len(move.limits) > 1:
        # Each limit is for one name, and the question is about several.
        lines[-1] += f" (less would do: all that has to stay as recorded is {question.detail})"
    return lines


def _advice(move: Move, never: str) -> list[str]:
    """Return advice on excluding sizes: by limits, or as a fixed axis if only one size is left."""
    lines = [f"{never}: {move.within}"] if move.within else []
    return lines + ([f"a size has to be fixed: {move.fixed}"] if move.fixed else [])


def _is_crossed(rejected: Rejected) -> bool:
    """Return True if the first failed case was made to get another answer."""
    return rejected.failed_names[0] in rejected.subject.beyond


def _has_a_smaller_size(rejected: Rejected) -> bool:
    recipe, case = rejected.subject.recipe, rejected.case
    sizes = sizes_of(recipe, case.feeds if case is not None else None)
    recorded = sizes_of(recipe)
    return any(n < before for n, before in zip(sizes.values(), recorded.values()))


def _more_than_one(rejected: Rejected) -> list[str] | None:
    """Exclude size 1, or the smallest sizes up to the answer that was recorded."""
    case = rejected.case
    if case is None or not case.name.endswith("=1") or " " in case.name:
        return None
    sizes = sizes_of(rejected.subject.recipe, case.feeds)
    least = Move(sizes, {case.name[:-2]: Limits(2)})
    for move in (ruled_out(rejected.subject, case), least):
        if move is not None and rejected.rules_out_no_failure(move):
            return _advice(move, "a size that never comes can be ruled out")
    return []


def _multiples(rejected: Rejected) -> list[str] | None:
    """Promise multiples only. A number that was lost is not right at multiples of anything."""
    case = rejected.case
    if case is None or any(each.kind not in ANSWERS for each in rejected.lost):
        return None
    steps = steps_between(rejected.subject, case, rejected.cases(ok=True))
    failed = rejected.failed_sizes
    if not steps or any(all(n[w] % step == 0 for w, step in steps.items()) for n in failed):
        return None
    instead = ", ".join(f"{word}%{step} in place of {word}" for word, step in steps.items())
    return [f"sizes that are no multiples can be ruled out, if they never come: {instead}"]


ADVICE: tuple[Callable[[Rejected], list[str] | None], ...] = (
    _one_name,
    _sizes_beyond,
    _more_than_one,
    _multiples,
)
