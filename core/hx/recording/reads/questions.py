"""Questions that the model asks in Python to choose its path: `if x.min() < 0`, `if n > 64`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import Unsupported, Where
from ...graph.op import Op
from ...ir.recipe import Forced, Line, Padded, Until
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.remainders import LeftOver, fits
from ...ir.sizes.size_polynomials import Atom, Poly
from ...ir.value import Node, Value

_COMPARES = {operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
             operator.ge: "GreaterOrEqual", operator.eq: "Equal", operator.ne: "Equal"}  # fmt: skip


@dataclass(eq=False)
class Question:
    """A question about a truth value of the graph, or about sizes."""

    yes: bool
    where: Where
    at: int  # number of nodes before it
    value: Value | None = None
    asked: Asked | None = None
    of_values: bool = True  # values decide it, not the sizes of inputs alone
    size_questions: tuple[Asked, ...] = ()  # for a truth value of sizes: the questions about them
    kind: str = "branch"  # of the escape that it is

    @property
    def line(self) -> tuple[str, int]:
        return self.where.file_line

    def computed(self, op: Op) -> Value:
        """The answer, in the graph."""
        if self.asked is not None:
            return _compared(op, self.asked)
        assert self.value is not None
        answer = op.cast(self.value, torch.bool)
        return op.Reshape(answer, []) if answer.shape else answer


def until_asked(questions: Iterable[Question], until: Until) -> list[Question]:
    """Return the questions that may end a loop."""
    return [q for q in questions if q.line == until.line and q.of_values]


class Questions:
    """The questions of one recording, in their order."""

    def __init__(self, nodes: list[Node], op: Op) -> None:
        self._nodes = nodes  # those of the graph; in a body of it, others are written to
        self._op = op
        self.each: list[Question] = []
        self.forced = Forced()
        self.until: Until | None = None
        self.left_over: LeftOver | None = None
        self.padding: Padded | None = None
        self.padded_line: Line | None = None  # the last one on which sizes did not fit
        self.counted: Callable[[], None] = lambda: None  # called with each question
        self._counted, self._work = 0, 0  # nodes, and the numbers that they make

    def value(
        self,
        nodes: list[Node],
        where: Where,
        yes: bool,
        value: Value,
        of_values: bool,
        size_questions: tuple[Asked, ...] = (),
        kind: str = "bool",
    ) -> bool:
        """The answer that the model gets to a question about a value."""
        self.counted()
        if nodes is self._nodes and of_values and self._until(where):
            yes = self._goes_on(yes)
            self.each.append(
                Question(yes, where, len(nodes), value, None, True, size_questions, kind)
            )
        elif nodes is self._nodes:
            for before in self.each:
                if before.value is value:
                    return before.yes  # no other answer than before
            if (
                len(size_questions) == 1
                and (says := self._fits(size_questions[0], where)) is not None
            ):
                same = yes is bool(size_questions[0].ask(*map(_recorded, size_questions[0].of)))
                return says if same else not says
            yes = self._given_answer(yes, where) if of_values else yes
            self.each.append(
                Question(yes, where, len(nodes), value, None, of_values, size_questions, kind)
            )
        return yes

    def sizes(self, nodes: list[Node], where: Where, asked: Asked) -> bool | None:
        """Return the answer to a question about sizes that a recipe decides; None for the true one."""
        if nodes is not self._nodes or not asked.compares:
            return None
        self.counted()
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
            yes = self._given_answer(yes, where)
        elif self.left_over is not None:
            self.left_over.answered(asked, yes)
        self.each.append(Question(yes, where, len(nodes), asked=asked, of_values=of_values))
        return yes if of_values else self.forced.of_sizes.get(where.file_line)

    def _fits(self, asked: Asked, where: Where) -> bool | None:
        """The answer for a model that asks whether sizes fit, and makes them fit if not."""
        line = where.file_line
        if self.padding is None or line in self.padding.true_lines:
            return None
        says = fits(asked)
        self.padded_line = self.padded_line if says is None else line
        if says is not None and self.left_over is not None:
            self.left_over.answered(asked, says)
        return says

    def _until(self, where: Where) -> bool:
        return self.until is not None and self.until.line == where.file_line

    def _goes_on(self, yes: bool) -> bool:
        """Every question there is of another value, though of one that looks like that before."""
        assert self.until is not None
        if self.until.times is None:
            return yes
        until, rounds = self.until, len(until_asked(self.each, self.until))
        for node in self._nodes[self._counted :]:
            shapes = (map(dims.plain, value.shape or ()) for value in node.outputs)
            self._work += sum(map(math.prod, shapes))
        self._counted = len(self._nodes)
        room = rounds <= BUDGET.rounds.short or (
            self._counted < BUDGET.nodes.rounds and self._work < BUDGET.elements.rounds
        )
        return until.on is (rounds < self.until.times and room)

    def _given_answer(self, yes: bool, where: Where) -> bool:
        if len(self.each) < len(self.forced.first):
            return self.forced.first[len(self.each)]
        others = len(self.each) - (len(until_asked(self.each, self.until)) if self.until else 0)
        if (self.forced and others > BUDGET.rounds.endless) or (
            self.until is not None and others > BUDGET.rounds.other_questions
        ):
            raise Unsupported(
                "a loop does not end when the model gets other answers than the true ones"
            )
        return self.forced.by_line.get(where.file_line, yes)


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
    return dims.DimFloat(x) if isinstance(x, Atom) else x
