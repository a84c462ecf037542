"""What is known of two rows while they are laid side by side."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from ...tensors.values import Constant, Value
from .rows import Join, Place, Side, Split


@dataclass(frozen=True)
class Seen:
    """An `If` whose end the other row has passed."""

    split: Split
    yes: bool  # what the other row answers
    end: int  # its number among all ends that were passed


@dataclass(frozen=True)
class View:
    """What can be seen at a place, and the sides that it is in."""

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
    """The place of a result around an `If`."""

    place: Place
    view: View


Results = list[tuple[Value, Place | Around]]


class State:
    """What is known of two rows that were laid side by side so far."""

    def __init__(self) -> None:
        self.here: dict[int, Value] = {}  # by the id of a value of the other row, that of the first
        self.view = View()
        self.ends = 0  # how many were passed, also inside of others
        self.passed: dict[int, Passed] = {}  # by the id of its value
        self.given: dict[Side, Value] = {}  # by a join, what a side gives instead
        # By the id of a value that is inside of an `If`, the number of its end, and what the value
        # is behind that.
        self.hidden: dict[int, tuple[int, Value | None]] = {}
        self.made_in: dict[int, Split] = {}  # by id, the side that made a value
        self.splits: list[Split] = []  # those that are new
        self.since: dict[int, int] = {}  # by id, behind how many ends a value is made
        self.joins: dict[tuple[int, int, int], tuple[Split, Join]] = {}
        self.gives: dict[
            int, Value
        ] = {}  # by the id of its value, what a new join is in the other row
        # By id, what a value is where the other row has a constant that nothing computes there.
        self.constants: dict[int, Constant] = {}
        self.put: list[tuple[Place, Any]] = []  # what is to be read instead

    def end(self, split: Split, yes: bool, around: View) -> int:
        """That it is passed."""
        self.ends += 1
        self.view = View((*around.splits, Seen(split, yes, self.ends)), around.through)
        return self.ends

    def copy(self) -> State:
        made = copy.copy(self)
        for name, held in vars(self).items():
            setattr(made, name, held.copy() if isinstance(held, (dict, list)) else held)
        return made
