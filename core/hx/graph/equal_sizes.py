"""Sizes that a model has compared and found equal: what is computed element by element from tensors
of both sizes has either of them.
"""

from __future__ import annotations

import operator
from typing import Any

from ..ir.shape_rules import BROADCAST
from ..ir.sizes import dims
from ..ir.sizes.comparisons import Asked
from ..ir.sizes.size_polynomials import Poly
from ..ir.value import Value


class EqualSizes:
    """Pairs of sizes that are equal on the way that the model goes in this recording.

    `if a.size(1) != b.size(1): b = pad(b)` leaves a size of `b` that looks unlike that of `a`. Where
    it is not known that both are equal, one of them could be 1 and broadcast. Answers are learned
    only if the recording is merged with others, in which they are not the same: a file that goes
    one way keeps to the sizes that its values have.
    """

    def __init__(self) -> None:
        self.learns = False
        self._pairs: set[frozenset[Poly]] = set()

    def learn(self, asked: Asked) -> None:
        """Note two sizes that the true answer to a question says to be equal."""
        if not self.learns or asked.ask not in (operator.eq, operator.ne) or asked.of_values():
            return
        pair = frozenset(each for each in asked.of if isinstance(each, Poly))
        if len(pair) == 2 and len({each.hint for each in pair}) == 1:
            self._pairs.add(pair)

    def size_of(
        self, op: str, inputs: list[Value | None], made: Value, axis: int, rank: int
    ) -> dims.Dim:
        """Return a size of a new value: its own, unless equal sizes meet on this axis."""
        met = [] if op not in BROADCAST or not self._pairs else _sizes(inputs, axis - rank)
        first = min(met, key=lambda size: len(str(size.poly)), default=None)
        if first is not None and all(self._alike(first, size) for size in met):
            return first
        return dims.Dim.unsure(made, axis)

    def _alike(self, a: dims.Dim, b: dims.Dim) -> bool:
        pair = frozenset((a.poly, b.poly))
        return dims.plain(a) == dims.plain(b) and (len(pair) == 1 or pair in self._pairs)


def _sizes(inputs: list[Value | None], axis: int) -> list[Any]:
    """Return the sizes on an axis, counted from the end, that may vary; none if one is a number
    other than 1.
    """
    shapes = [value.shape for value in inputs if value is not None and value.shape is not None]
    met = [shape[axis] for shape in shapes if len(shape) >= -axis]
    varying = [size for size in met if type(size) is dims.Dim]
    return varying if all(type(n) is dims.Dim or (type(n) is int and n == 1) for n in met) else []
