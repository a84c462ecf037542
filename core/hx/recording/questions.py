"""What the model asks in Python and goes one way or another for: `if x.min() < 0`, `if n > 64`."""

from __future__ import annotations

import math
import operator
from builtins import len  # its own: `world` hooks that of the model
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import Unsupported, Where
from ..graph.op import Op
from ..sizes import dims, floats
from ..sizes.asked import Asked
from ..sizes.leftover import LeftOver, fits
from ..sizes.polynomials import Atom, Poly
from ..tensors.values import Node, Value

_COMPARES = {operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
             operator.ge: "GreaterOrEqual", operator.eq: "Equal", operator.ne: "Equal"}  # fmt: skip
LONG, SOME = 1000, 200  # questions; and beside one that ends rounds
MOST = 1000  # rounds that are recorded
ROOM, WORK = 20_000, 1 << 26  # nodes, and numbers that these make, after which there were enough
FEW = 5  # rounds that are not enough


@dataclass(eq=False)
class Question:
    """Asked of a truth value that the graph has, or of sizes."""

    yes: bool
    where: Where
    at: int  # how many nodes were there before
    value: Value | None = None
    asked: Asked | None = None
    of_values: bool = True  # what is in a tensor decides it, and not the sizes of inputs alone
    sized: tuple[Asked, ...] = ()  # of a truth value of sizes: what was asked of them
    kind: str = "branch"  # of the escape that it is

    @property
    def line(self) -> tuple[str, int]:
        return self.where.file, self.where.line

    def computed(self, op: Op) -> Value:
        """The answer, in the graph."""
        if self.asked is not None:
            return _compared(op, self.asked)
        assert self.value is not None
        answer = op.cast(self.value, torch.bool)
        return op.Reshape(answer, []) if answer.shape else answer


@dataclass(frozen=True)
class Until:
    """What the model hears on one line, whatever is true: so many times that it goes on, and then
    that it does not. Or the truth, where it cannot go further."""

    line: tuple[str, int]
    on: bool  # the answer with which it goes on
    times: int | None = MOST  # None: as many as is true
    truly: int = 0  # how many that was, as it was recorded
    breaks: tuple[tuple[tuple[str, int], bool], ...] = ()  # what else may end it, and does not


class Pads:
    """The model hears that sizes do not fit wherever it asks that, whatever is true: it pads, by
    nothing it may be, or resizes to the size that is there (see `sizes.leftover`). Not on lines
    where it raises an error then."""

    def __init__(self) -> None:
        self._true: set[tuple[str, int]] = set()
        self._last: tuple[str, int] | None = None

    def answer(self, asked: Asked, where: Where) -> bool | None:
        found = fits(asked)
        if found is None or (line := (where.file, where.line)) in self._true:
            return None
        self._last = line
        return found

    def gives_in(self) -> bool:
        """Whether the model hears the truth where it heard that last, and did not before."""
        if self._last is None or self._last in self._true:
            return False
        self._true.add(self._last)
        return True


class Questions:
    """Those of one recording, in their order."""

    def __init__(self, nodes: list[Node], op: Op) -> None:
        self._nodes = nodes  # those of the graph; in a body of it, others are written to
        self._op = op
        self.each: list[Question] = []
        # What the model hears at the first of them, whatever is true: to see where that leads.
        self.answers: tuple[bool, ...] = ()
        self.told: dict[tuple[str, int], bool] = {}  # by line, what it hears behind these
        self.until: Until | None = None
        self.left_over: LeftOver | None = None
        self.pads: Pads | None = None
        self._counted, self._work = 0, 0  # nodes, and the numbers that they make

    def until_asked(self, until: Until) -> list[Question]:
        return [q for q in self.each if q.line == until.line and q.of_values]

    def value(
        self,
        nodes: list[Node],
        where: Where,
        yes: bool,
        value: Value,
        of_values: bool,
        sized: tuple[Asked, ...] = (),
        kind: str = "bool",
    ) -> bool:
        """What the model hears."""
        if nodes is self._nodes and of_values and self._until(where):
            yes = self._goes_on(yes)
            self.each.append(Question(yes, where, len(nodes), value, None, True, sized, kind))
        elif nodes is self._nodes:
            for before in self.each:
                if before.value is value:
                    return before.yes  # no other answer than before
            if len(sized) == 1 and (says := self._fits(sized[0], where)) is not None:
                same = yes is bool(sized[0].ask(*map(_recorded, sized[0].of)))
                return says if same else not says
            yes = self._heard(yes, where) if of_values else yes
            self.each.append(Question(yes, where, len(nodes), value, None, of_values, sized, kind))
        return yes

    def sizes(self, nodes: list[Node], where: Where, asked: Asked) -> bool | None:
        """What it hears, if that is to be decided here: what sizes of inputs are is always true."""
        if nodes is not self._nodes or not asked.compares:
            return None
        yes = bool(asked.ask(*map(_recorded, asked.of)))
        of_values = asked.of_values()
        if (says := self._fits(asked, where)) is not None:
            return says
        if of_values and self._until(where):
            value = _compared(self._op, asked)
            yes = self._goes_on(yes)
            self.each.append(Question(yes, where, len(nodes), value, asked))
            return yes
        if of_values:
            yes = self._heard(yes, where)
        elif self.left_over is not None:
            self.left_over.heard(asked, yes)
        self.each.append(Question(yes, where, len(nodes), asked=asked, of_values=of_values))
        return yes if of_values else None

    def _fits(self, asked: Asked, where: Where) -> bool | None:
        """What a model hears that makes sizes fit wherever it asks whether it has to."""
        says = None if self.pads is None else self.pads.answer(asked, where)
        if says is not None and self.left_over is not None:
            self.left_over.heard(asked, says)
        return says

    def _until(self, where: Where) -> bool:
        return self.until is not None and self.until.line == (where.file, where.line)

    def _goes_on(self, yes: bool) -> bool:
        """Every question there is of another value, though of one that looks like that before."""
        assert self.until is not None
        if self.until.times is None:
            return yes
        until, rounds = self.until, len(self.until_asked(self.until))
        for node in self._nodes[self._counted :]:
            shapes = (map(dims.plain, value.shape or ()) for value in node.outputs)
            self._work += sum(map(math.prod, shapes))
        self._counted = len(self._nodes)
        room = rounds <= FEW or (self._counted < ROOM and self._work < WORK)
        return until.on is (rounds < self.until.times and room)

    def _heard(self, yes: bool, where: Where) -> bool:
        if len(self.each) < len(self.answers):
            return self.answers[len(self.each)]
        others = len(self.each) - (len(self.until_asked(self.until)) if self.until else 0)
        forced = self.answers or self.told
        if (forced and others > LONG) or (self.until is not None and others > SOME):
            raise Unsupported("a loop that does not end where what it hears is not true")
        return self.told.get((where.file, where.line), yes)


def _recorded(x: Any) -> Any:
    return x.hint if isinstance(x, (Poly, Atom)) else x


def _compared(op: Op, asked: Asked) -> Value:
    sides = [_number(x) for x in asked.of]
    whole = all(isinstance(x, int) for x in sides)
    a, b = (op.constant(x, torch.int64 if whole else torch.float64) for x in sides)
    test = getattr(op, _COMPARES[asked.ask])(a, b)
    return op.Not(test) if asked.ask is operator.ne else test


def _number(x: Any) -> Any:
    if isinstance(x, Poly):
        return dims.dim(x)
    return floats.DimFloat(x) if isinstance(x, Atom) else x
