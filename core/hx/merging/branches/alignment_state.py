"""State of two rows while they are laid side by side."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from ...ir.value import Constant, Value
from .node_rows import Join, Place, Side, Split


@dataclass(frozen=True)
class Seen:
    """An `If` whose end the other row has passed."""

    split: Split
    yes: bool  # what the other row answers
    end: int  # its number, in the order in which ends are passed


@dataclass(frozen=True)
class View:
    """The `If`s whose results are visible at a place, and the sides that it is in."""

    splits: tuple[Seen, ...] = ()
    through: frozenset[Side] = frozenset()


@dataclass(frozen=True)
class Passed:
    """A join whose end the other row has passed."""

    join: Join
    yes: bool
    end: int
    view: View  # at the end of that side

    @property
    def place(self) -> Place:
        return self.join.of, self.yes


@dataclass(frozen=True)
class Around:
    """The place of a result outside of an `If`, and the view from there."""

    place: Place
    view: View


Results = list[tuple[Value, Place | Around]]


class State:
    """Facts about two rows, as far as they have been laid side by side."""

    def __init__(self) -> None:
        self.here: dict[int, Value] = {}  # id of a value of the other row -> the first's
        self.view = View()
        self.ends = 0  # number of ends passed, with nested ones
        self.passed: dict[int, Passed] = {}  # id of a join's value -> that join
        self.given: dict[Side, Value] = {}  # id of a join and a side -> what it gives instead
        # Id of a value inside of an `If` -> the number of its end, and the value's join behind it.
        self.hidden: dict[int, tuple[int, Value | None]] = {}
        self.made_in: dict[int, Split] = {}  # id of a value -> the new `If` that makes it
        self.splits: list[Split] = []  # the new ones
        self.since: dict[int, int] = {}  # id of a value -> ends passed before it is made
        self.joins: dict[tuple[int, int, int], tuple[Split, Join]] = {}
        self.gives: dict[int, Value] = {}  # id of a new join's value -> the other row's
        # Id of a value -> the constant that the other row has in its place.
        self.constants: dict[int, Constant] = {}
        self.put: list[tuple[Place, Any]] = []  # places, and the values to read there

    def end(self, split: Split, yes: bool, around: View) -> int:
        """Note that the end of a side is passed, and return its number."""
        self.ends += 1
        self.view = View((*around.splits, Seen(split, yes, self.ends)), around.through)
        return self.ends

    def copy(self) -> State:
        made = copy.copy(self)
        for name, held in vars(self).items():
            setattr(made, name, held.copy() if isinstance(held, (dict, list)) else held)
        return made
