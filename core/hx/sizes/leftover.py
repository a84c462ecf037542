"""What is added to a size that is no multiple of something, and is 0 where it is one.

    if w % 4 != 0:
        x = F.pad(x, (0, 4 - w % 4))

Where something is left over, `4 - w % 4` and `-w % 4` are the same. Written as the latter, what was
recorded pads by nothing at a multiple of 4, as the model does that leaves it out there: one way,
without a branch, is right for all sizes. And as the number is 0 there, a model that hears at a multiple
of 4 that something is left over goes the same way. `w // 4 + 1` is written as `w / 4` rounded up. The
proof sees whether that is what the model does.
"""

from __future__ import annotations

import threading
from builtins import abs, enumerate, len, range  # their own: `world` hooks those of the model
from collections.abc import Callable

from .asked import SIGNS, Asked
from .operations import binary
from .polynomials import Atom, Poly

MOST = 1 << 12  # of what is divided by


class LeftOver:
    """The divisions that are known to leave something over, on the way that a model goes.

    What the model computes is rounded, and nothing that converters do: `w // 4 + 1` is a size of what
    a convolution gives, too, whatever is left over. These are at work where it `is_busy`.
    """

    def __init__(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._known: set[tuple[Poly, Poly]] = set()
        self._is_busy = is_busy

    def heard(self, asked: Asked, yes: bool) -> None:
        """Takes note of an answer that says that something is left over."""
        says = left_over(asked)
        if says is not None and says[1] is yes:
            self._known.add(says[0].args)

    def rounded(self, poly: Poly) -> Poly:
        """The same, with what is left over of a size as what is missing from the next multiple."""
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
        """What to add to a sum with `c` of them and that number; None where it stays as it is."""
        size, by = atom.args
        if not by.constant:
            return None
        per = -by.constant if atom.kind == "mod" else 1  # the number that goes with each
        if c * per * number <= 0 or abs(number) < abs(c * per):
            return None
        if atom.kind == "mod":
            up = binary("mod", size * Poly.of(-1), by) * Poly.of(-1)
        else:
            up = binary("div", size + by + Poly.of(-1), by)
        return (up + Poly.of(atom) * Poly.of(-1)) * Poly.of(c) + Poly.of(-c * per)


def left_over(asked: Asked) -> tuple[Atom, bool] | None:
    """The remainder that is asked of, and the answer that says that there is one; None where another
    thing is asked."""
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
        elif 1 < by <= MOST:
            some = range(by)
        else:
            continue
        answers = [asked.ask(*((number, r) if place else (r, number))) for r in some]
        if answers[0] not in answers[1:]:
            return atom, answers[1]
    return None


def fits(asked: Asked) -> bool | None:
    """The answer that has a model make a size fit: that something is left over of it, or that it is
    not the same as another. None where another thing is asked.

    What is resized, cut or padded to the size that it has stays as it is.
    """
    found = left_over(asked)
    if found is not None:
        return found[1]
    equal = asked.ask in (SIGNS["=="], SIGNS["!="]) and any(isinstance(x, Poly) for x in asked.of)
    # Of how many there are where the data say that, none is as usual an answer as another number.
    return asked.ask is SIGNS["!="] if equal and not asked.of_values() else None


_of_threads: dict[int, LeftOver] = {}


def current() -> LeftOver | None:
    return _of_threads.get(threading.get_ident())


def know(some: LeftOver | None) -> None:
    """Has the sizes of this thread written as is known."""
    if some is None:
        _of_threads.pop(threading.get_ident(), None)
    else:
        _of_threads[threading.get_ident()] = some


def rounded(poly: Poly) -> Poly:
    if not _of_threads:  # which is nearly always so
        return poly
    known = current()
    return poly if known is None else known.rounded(poly)
