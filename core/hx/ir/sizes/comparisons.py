"""Questions that a model asks about sizes, and their answers at other sizes.

`n > 64` was answered once, when the model was recorded. The question is kept as it was computed, so
that the sizes can be found at which its answer differs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...budget import BUDGET
from .size_polynomials import Atom, Poly

SIGNS: dict[str, Callable] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMPARES = frozenset(SIGNS.values())


class Unforeseen(Exception):
    """A number that does not follow from the named sizes of inputs alone."""


@dataclass(frozen=True)
class Asked:
    """A question: a function, and its arguments in terms of Polys, Atoms and plain numbers."""

    ask: Callable
    of: tuple[Any, ...]
    guessed: bool = False  # it was not seen being asked: its limits are unknown

    @property
    def compares(self) -> bool:
        return self.ask in _COMPARES

    def answer(self, at: At) -> Any:
        """Return the answer that the model gets at these sizes."""
        return self.ask(*map(at, self.of))

    def answer_if_known(self, at: At, side: bool = False) -> Any:
        """The answer, or the side of a comparison that it is on; None if it cannot be known."""
        try:
            return self.side(at) if side else self.answer(at)
        except (Unforeseen, ArithmeticError, ValueError, TypeError):
            return None  # the square root of a negative number

    def side(self, at: At) -> Any:
        """The answer; for a comparison, the side that the numbers are on: -1, 0 or 1."""
        if not self.compares:
            return self.answer(at)
        a, b = map(at, self.of)
        return (a > b) - (a < b)

    def names(self) -> set[str]:
        """The sizes of inputs that it contains."""
        sources = (atom.args[0] for atom in self._atoms if atom.kind == "size")
        return {source for source in sources if isinstance(source, str)}

    def as_large_as(self, most: int) -> dict[str, int]:
        """The sizes of inputs that it contains, each as large as allowed, up to a given number."""
        named = ((a.args[0], a.limits) for a in self._atoms if a.kind == "size")
        return {word: int(min(most, high)) for word, (_, high) in named if isinstance(word, str)}

    def of_values(self) -> bool:
        """Return True if values decide the answer: a number in a tensor, or a mask's count."""
        return bool(self.numbers())

    def is_of_named_sizes(self) -> bool:
        """Return True if the answer follows from named sizes of inputs alone."""
        return self._is_of_named_sizes

    def numbers(self) -> set[Atom]:
        """Return the atoms in it that values decide."""
        return {
            atom
            for atom in self._atoms
            if atom.kind == "item" or (atom.kind == "size" and not isinstance(atom.args[0], str))
        }

    def read(self) -> list[Any]:
        """The one-element values whose numbers it contains."""
        return [atom.args[0] for atom in self._atoms if atom.kind == "item"]

    def picked(self) -> list[Any]:
        """The values whose sizes it contains: picked by a mask, or the distinct ones."""
        return [atom.args[0] for atom in self.numbers() if atom.kind == "size"]

    def period(self) -> int:
        """Return the largest divisor among its remainders, such as 8 of `n % 8`; 1 if there are none."""
        if any(atom.kind == "text" for atom in self._atoms):
            return BUDGET.sizes.one_by_one  # digits
        divided = (atom.args[1].constant for atom in self._atoms if atom.kind == "mod")
        return max((abs(by) for by in divided if by), default=1)

    @cached_property
    def _is_of_named_sizes(self) -> bool:
        known = all(atom.kind in ("size", "fnum", *COMPUTED) for atom in self._atoms)
        return known and not self.guessed and not self.of_values()

    @cached_property
    def _atoms(self) -> set[Atom]:
        found: set[Atom] = set()
        waiting = [*self.of]
        while waiting:
            x = waiting.pop()
            if isinstance(x, Poly):
                waiting += [atom for mono in x.terms for atom in mono]
            elif isinstance(x, Atom) and x not in found:
                found.add(x)
                waiting += x.args
        return found


def content(x: Any) -> Any:
    """Return what the model got from a text: other content may lead it another way."""
    return x


def itself(number: Any) -> Any:
    """Return a baked number: another number is another case, but not another path."""
    return number


class At:
    """Evaluates expressions of sizes where those of the inputs are `sizes`, and atoms as `known`."""

    def __init__(self, sizes: Mapping[str, int], known: Mapping[Atom, int] | None = None) -> None:
        self.sizes = sizes
        self._known: dict[Atom, Any] = dict(known or {})

    def __call__(self, x: Any) -> Any:
        """Evaluate a Poly or an Atom; a plain number is itself."""
        if isinstance(x, Poly):
            total = 0
            for mono, c in x.terms.items():
                for atom in mono:
                    c *= self(atom)
                total += c
            return total
        if not isinstance(x, Atom):
            return x
        if x not in self._known:
            try:
                self._known[x] = self._atom(x)
            except Unforeseen:
                self._known[x] = Unforeseen
        found = self._known[x]
        if found is Unforeseen:
            raise Unforeseen
        return found

    def _atom(self, atom: Atom) -> Any:
        if atom.kind == "size":
            source = atom.args[0]
            if not isinstance(source, str) or source not in self.sizes:
                raise Unforeseen
            return self.sizes[source]
        if atom.kind == "fnum":
            return atom.args[0]
        if atom.kind not in COMPUTED:
            raise Unforeseen
        numbers = [self(x) for x in atom.args]
        try:
            found = COMPUTED[atom.kind](*numbers)
        except (ArithmeticError, ValueError) as e:
            raise Unforeseen from e
        if isinstance(found, complex):
            raise Unforeseen
        return found


def _power(a: int, b: int) -> int:
    if b > 64:  # of no size that there is
        raise OverflowError
    return a**b


def _called(function: Callable, *args: Any) -> Any:
    """Call a function of texts; the class of an error that it raises is an answer, too."""
    try:
        return function(*args)
    except Exception as problem:  # of any kind: functions of texts are Python's own
        return type(problem)


COMPUTED: dict[str, Callable] = {
    "text": _called,
    "part": operator.floordiv, "div": operator.floordiv, "mod": operator.mod,
    "min": min, "max": max, "pow": _power, "and": operator.and_,
    "floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc,
    "int": float, "fadd": operator.add, "fmul": operator.mul, "fdiv": operator.truediv,
    "fpow": operator.pow, "fmin": min, "fmax": max, "flog": math.log, "fexp": math.exp,
    "fsin": math.sin, "fcos": math.cos, "ftanh": math.tanh,
    "fatan": math.atan, "ferf": math.erf,
}  # fmt: skip
