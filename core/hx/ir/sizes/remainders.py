"""Simplification of padding that makes a size a multiple of a number.

    if w % 4 != 0:
        x = F.pad(x, (0, 4 - w % 4))

Where a remainder is left, `4 - w % 4` equals `-w % 4`. The latter pads by nothing at a multiple of
4, as the model does when it skips the branch, so one path is right for all sizes. And as the number
is 0 there, a model that is told at a multiple of 4 that a remainder is left takes the same path.
`w // 4 + 1` is written as `w / 4` rounded up. The proof checks that the model does the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...budget import BUDGET
from .comparisons import SIGNS, Asked
from .size_operations import binary
from .size_polynomials import Atom, Poly


class LeftOver:
    """Divisions that are known to leave a remainder on the path that the model takes.

    Only the model's own arithmetic is rounded, not that of converters: `w // 4 + 1` is also the
    output size of a convolution, whatever remainder is left. It is active while `is_busy`.
    """

    def __init__(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._known: set[tuple[Poly, Poly]] = set()
        self._is_busy = is_busy

    def answered(self, asked: Asked, yes: bool) -> None:
        """Note an answer that means that a remainder is left."""
        says = left_over(asked)
        if says is not None and says[1] is yes:
            self._known.add(says[0].args)

    def rounded(self, poly: Poly) -> Poly:
        """Rewrite known remainders as what is missing from the next multiple."""
        if not self._known or self._is_busy():
            return poly
        for mono, c in poly.terms.items():
            if len(mono) == 1 and mono[0].kind in ("mod", "div") and mono[0].args in self._known:
                new = self._rounded(mono[0], c, poly.terms.get((), 0))
                if new is not None:
                    return self.rounded(poly + new)
        return poly

    @staticmethod
    def _rounded(atom: Atom, c: int, number: int) -> Poly | None:
        """Return the addition to a sum with `c` of these atoms and that number, if any."""
        size, by = atom.args
        if not by.constant:
            return None
        per = -by.constant if atom.kind == "mod" else 1  # the number that goes with each
        if c * per * number <= 0 or abs(number) < abs(c * per):
            return None
        if atom.kind == "mod":
            up = -binary("mod", -size, by)
        else:
            up = binary("div", size + by - Poly.of(1), by)
        return (up - Poly.of(atom)) * Poly.of(c) + Poly.of(-c * per)


def left_over(asked: Asked) -> tuple[Atom, bool] | None:
    """Return the remainder in a question, and the answer that means that it is not 0; None for any
    other question.
    """
    if not asked.compares:
        return None
    for place, side in enumerate(asked.of):
        number, atom = asked.of[1 - place], side.atom if isinstance(side, Poly) else None
        number = number.constant if isinstance(number, Poly) else number
        if atom is None or atom.kind != "mod" or not isinstance(number, int):
            continue
        by = atom.args[1].constant or 0
        if number == 0:
            some = range(2)  # what it is divided by, it may be a size as well
        elif 1 < by <= BUDGET.elements.divisor:
            some = range(by)
        else:
            continue
        answers = [asked.ask(*((number, r) if place else (r, number))) for r in some]
        if answers[0] not in answers[1:]:
            return atom, answers[1]
    return None


def fits(asked: Asked) -> bool | None:
    """Return the answer that makes the model fit a size: that a remainder is left, or that it
    differs from another size. None for any other question.

    Resizing, cutting or padding to the present size changes nothing.
    """
    found = left_over(asked)
    if found is not None:
        return found[1]
    equal = asked.ask in (SIGNS["=="], SIGNS["!="]) and any(isinstance(x, Poly) for x in asked.of)
    # A count that the data decide may well be 0: that does not ask whether a size fits.
    return asked.ask is SIGNS["!="] if equal and not asked.of_values() else None


_of_threads: dict[int, LeftOver] = {}


def current() -> LeftOver | None:
    return _of_threads.get(threading.get_ident())


def know(some: LeftOver | None) -> None:
    """Simplify the sizes of this thread by what is known."""
    if some is None:
        _of_threads.pop(threading.get_ident(), None)
    else:
        _of_threads[threading.get_ident()] = some


def rounded(poly: Poly) -> Poly:
    if not _of_threads:  # which is nearly always so
        return poly
    known = current()
    return poly if known is None else known.rounded(poly)
