"""A recipe: how to make one recording of the model."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from ..budget import BUDGET
from .request import Call, Inputs, Request
from .value import Node

Line = tuple[str, int]  # a file and a line in it
Sizes = dict[str, int]

# Questions about tracing, by what the model asks whether it is.
TRACING = "torch.jit.is_tracing"
EXPORTING = "torch.compiler.is_exporting"
ONNX = "torch.onnx.is_in_onnx_export"
Answers = frozenset[str]  # the questions that are answered with yes
STANDARD: Answers = frozenset({TRACING, EXPORTING})


class Folding(enum.Enum):
    """Constants that PyTorch computes while it records."""

    FOLDED = enum.auto()
    UNFOLDED = enum.auto()  # results of zeros that the model makes are computed in the graph
    COUNTING = enum.auto()  # and results of numbers that it makes tensors of
    # The same, and both sides of Ifs in loops are computed, and their results selected between.
    SELECTING = enum.auto()


class Leaks(enum.Enum):
    """Treatment of a number that leaves the graph, and may stay in it with other answers."""

    ACCEPT = enum.auto()
    OFFER = enum.auto()  # say that other answers are worth trying
    REFUSE = enum.auto()  # these are the other answers


class Sizing(enum.Enum):
    """Sizes at which the model is recorded."""

    GIVEN = enum.auto()
    OFFER = enum.auto()  # the given ones; say if others show more of the model
    INFORMATIVE = enum.auto()  # these are the others: the given ones are special to the model


class Promise(enum.Enum):
    """The least sizes that a file has to be right for, if it is wrong at others."""

    NONE = enum.auto()  # all of them

    AROUND = enum.auto()  # from half to twice the given ones
    ONWARD = enum.auto()  # the given ones and all larger ones
    ANY = enum.auto()  # the given ones


@dataclass(frozen=True)
class Forced:
    """Fixed answers to the model's questions, true or not."""

    first: tuple[bool, ...] = ()  # to its first questions about values
    by_line: Mapping[Line, bool] = field(default_factory=dict)  # to those behind them
    of_sizes: Mapping[Line, bool] = field(default_factory=dict)  # to those about sizes alone

    def __bool__(self) -> bool:
        return bool(self.first or self.by_line or self.of_sizes)


@dataclass(frozen=True)
class Padded:
    """The answer to each question whether a size fits is no. The model then pads, possibly by
    nothing, or resizes, possibly to the present size (see `remainders`).
    """

    true_lines: frozenset[Line] = frozenset()  # lines where it would raise an error then


@dataclass(frozen=True)
class Until:
    """A loop that ends on values: on one line, the answer is to go on so many times, and then
    to stop. The answer is the true one where the model cannot go further.
    """

    line: Line
    on: bool  # the answer with which it goes on
    times: int | None = BUDGET.rounds.endless  # None: as many as is true
    truly: int = 0  # the true number in the recording
    breaks: tuple[tuple[Line, bool], ...] = ()  # other exits, with answers that avoid them
    sized: bool = False  # a size limits its rounds, too


@dataclass(frozen=True, eq=False)
class Branches:
    """Questions about values and sizes: the paths that other inputs take are recorded, too."""

    required: tuple[Inputs, ...] = ()  # inputs that have to be right
    variations: tuple[Inputs, ...] = ()  # inputs that may lead another way
    other_sizes: bool = False  # inputs of other sizes are tried, too
    lines: tuple[Line, ...] = ()  # lines of the questions, as far as known
    in_turn: bool = False  # questions that a line asks again and again get other answers one by one


class EndNumbers(Protocol):
    """Numbers at the ends of loops: those of the first round and of the last."""

    def ends(
        self, nodes: list[Node], start: int, period: int, end: int, at: int, slot: int
    ) -> tuple[torch.Tensor | None, torch.Tensor | None] | None: ...


@dataclass(frozen=True)
class Loops:
    """Loops whose number of rounds follows from sizes."""

    before: EndNumbers  # numbers of a recording with another number of rounds
    numbered: bool = False  # the graph has the number of each round, which the model may ask for
    counting: tuple[str, ...] = ()  # inputs with numbers that say how many rounds there are


@dataclass(frozen=True)
class Flow:
    """Control flow to merge into the graph."""

    branches: Branches | None = None
    loops: Loops | None = None
    until: Until | None = None
    formulas: tuple[Sizes, ...] = ()  # further sizes, to find what numbers follow from

    @property
    def reorders(self) -> bool:
        """Return whether nodes of the graph are in another order than they were recorded in."""
        return not (self.branches is self.loops is self.until is None)


@dataclass(frozen=True, eq=False)
class Recipe:
    """One way to record the model. It may be a recording among several that are merged."""

    request: Request
    inputs: Inputs
    also_proved: Mapping[str, Inputs] = field(
        default_factory=dict
    )  # the user's, where others are recorded
    answers: Answers = STANDARD
    forced: Forced = Forced()
    padding: Padded | None = None
    flow: Flow = Flow()
    folding: Folding = Folding.FOLDED
    body: Callable[..., Any] | None = None  # recorded in the model's place
    limit: int | None = None  # nodes, after which this recording is of no use
    unmerged_reason: str = ""  # why several recordings do not become one
    offers: bool = False  # other recipes are returned, where some are worth trying
    leaks: Leaks = Leaks.ACCEPT
    sizing: Sizing = Sizing.GIVEN
    promise: Promise = Promise.AROUND

    @property
    def given(self) -> Inputs:
        """The user's inputs, also where others are recorded."""
        return self.also_proved.get("given", self.inputs)

    @property
    def is_plain(self) -> bool:
        """Return whether the user's inputs are recorded as the model runs on them."""
        merges = self.flow != Flow() or self.body is not None
        return not (merges or self.forced or self.also_proved or self.padding is not None)

    @property
    def at_odd_sizes(self) -> bool:
        """Return whether other sizes are recorded because a file was wrong beyond the given ones."""
        other = bool(self.also_proved) and self.sizing is not Sizing.INFORMATIVE
        return other and self.flow.loops is None

    @property
    def call(self) -> Call:
        return self.request.call

    @property
    def derived(self) -> Recipe:
        """The base of recipes that follow from an offer, or from a failure."""
        leaks = Leaks.REFUSE if self.leaks is Leaks.REFUSE else Leaks.ACCEPT
        sizing = Sizing.GIVEN if self.sizing is Sizing.OFFER else self.sizing
        return replace(self, offers=False, leaks=leaks, sizing=sizing)

    @property
    def truthful(self) -> Recipe:
        """The same recipe, with true answers only."""
        return replace(self, forced=Forced(), padding=None)

    def with_flow(
        self,
        *,
        branches: Branches | None = None,
        loops: Loops | None = None,
        until: Until | None = None,
        formulas: tuple[Sizes, ...] | None = None,
    ) -> Recipe:
        """The same recipe, with more control flow to merge."""
        old = self.flow
        flow = Flow(
            branches or old.branches,
            loops or old.loops,
            until or old.until,
            old.formulas if formulas is None else formulas,
        )
        return replace(self, flow=flow)

    def ended_by(self, until: Until) -> Recipe:
        """The same recipe, with the rounds of one loop in place of its control flow."""
        return replace(self, flow=Flow(until=until))

    def without_branches(self) -> Recipe:
        return replace(self, flow=replace(self.flow, branches=None))
