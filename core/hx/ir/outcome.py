"""Outcomes of one attempt to export a model with one recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from ..errors import EscapeError, HxError, Unsupported, VerificationError, Where
from .recipe import Line, Recipe, Until
from .request import Inputs

Made = TypeVar("Made")


@dataclass(frozen=True)
class Right(Generic[Made]):
    """A file that is right, or for which no proof was requested."""

    made: Made


@dataclass(frozen=True)
class Wrong:
    """A file that does not compute what the model computes."""

    error: VerificationError
    failed: dict[str, Inputs] = field(default_factory=dict)  # inputs on which it is wrong, by name
    one_way: bool = False  # no inputs led along another branch: there was nothing to merge
    may_run_zero_times: bool = False  # a loop of it may, because data choose its length
    as_given: bool = False  # it is right at the sizes of the user's inputs
    explain: Callable[[], None] = lambda: None  # adds the reason to the error, if it is reported


@dataclass(frozen=True)
class Refused:
    """No file: the model, a converter or a step of the export raised an error."""

    error: Exception
    one_way: bool = False
    baked_at: Where | None = None  # a constant of inputs that never reach its side of a branch
    unfolded: bool = False  # the recordings that were merged were unfolded already

    @property
    def unsupported(self) -> bool:
        return isinstance(self.error, Unsupported)

    @property
    def raised_by_model(self) -> bool:
        return not isinstance(self.error, HxError)

    @property
    def strict(self) -> bool:
        """A value left the graph, under strict=True."""
        return isinstance(self.error, EscapeError)


@dataclass(frozen=True)
class OffersAnswers:
    """No file: a number left the graph that may stay in it, if questions get other answers."""


@dataclass(frozen=True)
class OffersBranches:
    """No file: the model asks questions about values, so several of its paths may be merged."""

    branches: bool  # it asks so few that each may become an If
    untils: tuple[Until, ...]  # questions that may end a loop
    asked_again: frozenset[Line]  # lines that ask again and again
    lines: tuple[Line, ...] = ()  # lines that ask about values


@dataclass(frozen=True)
class OffersLoops:
    """No file: sizes determine the number of loop rounds, so the rounds may be merged."""

    recipe: Recipe  # records enough rounds
    numbered: Recipe | None  # records rounds that differ by their number
    asks_in_rounds: bool  # questions about values are asked in each round
    untils: tuple[Until, ...] = ()  # questions that may end a loop before all its rounds have run


@dataclass(frozen=True)
class OffersSizes:
    """No file: the model treats the recorded sizes specially, and other ones show more of it."""

    recipe: Recipe  # records it at such sizes


Offers: TypeAlias = OffersAnswers | OffersBranches | OffersLoops | OffersSizes
Failure: TypeAlias = Wrong | Offers | Refused
Outcome: TypeAlias = Right | Failure


def error_of(outcome: Failure) -> Exception | None:
    return outcome.error if isinstance(outcome, (Wrong, Refused)) else None


def is_unsupported(outcome: Outcome) -> bool:
    """Return whether the model does something that this recipe cannot express; another one may."""
    return isinstance(outcome, Refused) and outcome.unsupported
