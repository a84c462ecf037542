"""Failures of a search so far, and the one of them that is reported."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import (
    Differentiates,
    ExportError,
    HxError,
    MissingConverters,
    PackError,
    UsageError,
    is_environment_error,
)
from ..findings import scaffold
from ..ir.knowledge import Knowledge
from ..ir.outcome import Failure, OffersAnswers, Refused, Wrong, error_of
from ..ir.recipe import STANDARD, Recipe
from ..recording.call_model import raised_by_model
from . import recipes


class History:
    """Failures that may be reported for the export, in their order.

    A strategy drops those that its next recipe repeats. What was learnt from them stays known.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._failures: list[Failure] = []
        # The first merge whose file is wrong at smaller sizes than the recorded ones alone.
        self.right_onward: Recipe | None = None
        self.is_settled = False  # a file is right, and another recipe may only give a better one

    def __bool__(self) -> bool:
        return bool(self._failures)

    @property
    def first(self) -> Failure:
        return self._failures[0]

    def add(self, recipe: Recipe, outcome: Failure) -> None:
        self._failures.append(outcome)
        if self.right_onward is None and recipe.flow.reorders and isinstance(outcome, Wrong):
            if recipes.may_hold_from_here_on(recipe, outcome):
                self.right_onward = recipe

    def mark(self) -> int:
        return len(self._failures)

    def since(self, mark: int) -> Sequence[Failure]:
        return self._failures[mark:]

    def forget(self, mark: int) -> None:
        """Drop the failures since a mark."""
        del self._failures[mark:]

    def keep_first_since(self, mark: int) -> None:
        """Drop all failures but the first one since a mark."""
        self._failures[:] = self._failures[mark : mark + 1]

    def speaks_for(self, recipe: Recipe) -> bool:
        """Return whether an error with this recipe would be the one to report."""
        if self.is_settled or not self._failures:
            return not self.is_settled
        return isinstance(self.first, OffersAnswers) and recipe.answers == STANDARD

    def ends_with(self, problem: Exception) -> bool:
        """Return whether no other recipe can help, or is allowed to hide this error.

        After a first failure, the other recipes are tried for its sake alone: whatever they raise,
        the model's own errors among it, hides nothing of what is known.
        """
        return not (
            self.is_settled or self._failures or self._may_be_of_its_recipe(problem)
        ) or is_environment_error(problem)

    def _may_be_of_its_recipe(self, problem: Exception) -> bool:
        """Return whether the model may avoid what failed if it is given other answers."""
        if not isinstance(problem, HxError):
            # "cannot be exported"
            return bool(self.knowledge.asked) and raised_by_model(problem)
        if isinstance(problem, (UsageError, PackError)):
            return False
        return type(problem) is not ExportError

    def error_to_report(self) -> Exception:
        """Return the first error, with what the last one adds to it."""
        first = _explained(self.first)
        assert first is not None
        if not isinstance(first, Differentiates) or len(self._failures) == 1:
            return first
        last = _explained(self._failures[-1])
        if not isinstance(last, MissingConverters):
            if isinstance(last, HxError) and not isinstance(last, Differentiates):
                first.why = f"what PyTorch traces of it fails, too: {last.what}"
                first.why += f"; {last.why}" if last.why else ""
            return first
        names = [each.target for each in last.missing]
        have = "has" if len(names) == 1 else "have"
        write = scaffold(last.missing)
        told = Differentiates(
            first.what,
            where=first.where,
            why=f"its derivative needs {', '.join(names)}, which {have} no converter",
            hint=f"write {'one' if len(names) == 1 else 'them'}: {write}" if write else "",
        )
        told.report = last.report
        return told


def _explained(failure: Failure) -> Exception | None:
    if isinstance(failure, Wrong):
        failure.explain()
    return error_of(failure)


def needs_derivatives(outcome: Failure) -> bool:
    return isinstance(outcome, Refused) and isinstance(outcome.error, Differentiates)
