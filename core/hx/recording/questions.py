"""What the model asks in Python and goes one way or another for: `if x.min() < 0`, `if n > 64`."""

from __future__ import annotations

import operator
from builtins import len  # its own: `world` hooks that of the model
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import Unsupported, Where
from ..graph.op import Op
from ..sizes import dims, floats
from ..sizes.asked import Asked
from ..sizes.polynomials import Atom, Poly
from ..tensors.values import Node, Value

_COMPARES = {operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
             operator.ge: "GreaterOrEqual", operator.eq: "Equal", operator.ne: "Equal"}  # fmt: skip
LONG = 1000  # questions


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


class Questions:
    """Those of one recording, in their order."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes  # those of the graph; in a body of it, others are written to
        self.each: list[Question] = []
        # What the model hears at the first of them, whatever is true: to see where that leads.
        self.answers: tuple[bool, ...] = ()

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
        if nodes is self._nodes:
            for before in self.each:
                if before.value is value:
                    return before.yes  # no other answer than before
            yes = self._heard(yes) if of_values else yes
            self.each.append(Question(yes, where, len(nodes), value, None, of_values, sized, kind))
        return yes

    def sizes(self, nodes: list[Node], where: Where, asked: Asked) -> bool | None:
        """What it hears, if that is to be decided here: what sizes of inputs are is always true."""
        if nodes is not self._nodes or not asked.compares:
            return None
        yes = bool(asked.ask(*map(_recorded, asked.of)))
        of_values = asked.of_values()
        if of_values:
            yes = self._heard(yes)
        self.each.append(Question(yes, where, len(nodes), asked=asked, of_values=of_values))
        return yes if of_values else None

    def _heard(self, yes: bool) -> bool:
        if len(self.each) < len(self.answers):
            return self.answers[len(self.each)]
        if self.answers and len(self.each) > LONG:
            raise Unsupported("a loop that does not end where what it hears is not true")
        return yes


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
