"""Integer polynomials over atoms, in normal form: the sizes that a graph can compute.

An *atom* is the size of an axis of a value, a floor division, a minimum, a number read from a
tensor... Two sizes that are always equal have equal polynomials: `b * t // t` is `b`.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable
from math import gcd  # so with this one
from typing import Any

from ...budget import BUDGET

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"  # in what is told of longer ones


class Atom:
    """An integer or float that the graph can compute; equal atoms are always equal at run time.

    kind         args                       means
    "size"       (source, axis)             size of an axis; source is a Value or a dim's name
    "part"       (size, n)                  an nth of such a size that is a multiple of n
    "item"       (value,)                   the number in a one-element tensor
    "div" "mod" "min" "max" "pow"           of two Polys (integers)
    "floor" "ceil" "round" "trunc"          of a float expression, as an integer
    "int"        (poly,)                    an integer polynomial, as a float
    "fadd" "fmul" "fdiv" "fpow" "fmin" "fmax"  of two float expressions
    "flog" "fexp" "fsin" "fcos" "ftanh" "fatan" "ferf"  of a float expression
    "fnum"       (float,)                   a float
    "text"       (function, ...)            what a function of texts returns; no graph computes it
    """

    __slots__ = ("_equals", "_hash", "_text", "args", "facts", "hint", "kind", "limits", "unsure")

    def __init__(self, kind: str, args: tuple, hint, unsure: bool = False) -> None:
        self.kind = kind
        self.limits: tuple[float, float] = (0, math.inf)  # of a size, where any were given
        self.args = args
        self.hint = hint
        # Its number is made up: a converter wrote it before the call was run.
        self.unsure: bool = unsure or any(a.unsure for a in args if isinstance(a, (Atom, Poly)))
        self._hash = hash((kind, args))
        self._equals: object = None  # a mark that it shares with those that were found equal to it
        self._text: str | None = None
        self.facts: dict[Any, Any] = {}  # cached results: atoms are made of atoms of atoms

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        if self is other:
            return True
        if not isinstance(other, Atom) or self._hash != other._hash:
            return False
        if self._equals is not None and self._equals is other._equals:
            return True
        if self.kind != other.kind or self.args != other.args:
            return False
        # Expressions of both compare them again and again: twice as often with each step.
        self._equals = other._equals = other._equals or self._equals or object()
        return True

    def __str__(self) -> str:
        """Return the text for hx itself: different atoms have different texts."""
        if self._text is None:
            text = self._spell(str)
            if (
                len(text) > BUDGET.shown.formula
            ):  # nobody reads that, and expressions of it would be longer still
                text = f"{self.kind}{ELLIPSIS}{zlib.crc32(text.encode()):08x}"
            self._text = text
        return self._text

    def __format__(self, _: str) -> str:
        """Return the text for people: an atom without a name is told by the call that made it."""
        if self.named():
            return str(self)
        if "told" not in self.facts:  # expressions of it repeat it, possibly often
            text = self._spell(format)
            self.facts["told"] = (
                text if len(text) <= BUDGET.shown.formula else f"{self.kind}{ELLIPSIS}"
            )
        return self.facts["told"]

    def _spell(self, spell: Callable[[Any], str]) -> str:
        a = self.args
        if self.kind == "size":
            source, axis = a
            if isinstance(source, str):
                return source
            return f"{source.label()}.{axis}" if spell is str else f"size({source.made_by()})"
        if self.kind == "item":
            return f"item({a[0].label() if spell is str else a[0].made_by()})"
        if self.kind == "part":
            return f"({spell(a[0])}//{a[1]})"
        if self.kind in ("fnum", "int"):  # a number is one to who reads it, of whatever kind
            text = spell(a[0])
            return f"({text})" if self.kind == "int" and _is_open(text) else text
        if self.kind in _SIGNS:
            left, right = (f"({t})" if _is_open(t) else t for t in map(spell, a))
            return f"({left}{_SIGNS[self.kind]}{right})"
        if self.kind == "text":
            given = (spell(x) if isinstance(x, (Atom, Poly)) else repr(x) for x in a[1:])
            return f"{a[0].__name__}({', '.join(given)})"
        inside = (t[1:-1] if _closed_at_end(t) else t for t in map(spell, a))
        return f"{self.kind}({', '.join(inside)})"

    def named(self) -> bool:
        """Return True if it has only named input sizes and numbers, which a reader can follow."""
        if self.kind == "size":
            return isinstance(self.args[0], str)
        if "named" not in self.facts:
            self.facts["named"] = self.kind != "item" and all(
                a.named() if isinstance(a, (Atom, Poly)) else True for a in self.args
            )
        return self.facts["named"]


_SIGNS = {
    "div": "//", "mod": "%", "pow": "**", "and": " & ", "fadd": " + ", "fmul": "*", "fdiv": "/", "fpow": "**",
}  # fmt: skip


def _is_open(text: str) -> bool:
    """Return True if a text needs brackets beside a sign, to be read as the same expression."""
    return bool({" ", "*"} & set(text) or text[:1] == "-") and not _closed_at_end(text)


def _closed_at_end(text: str) -> bool:
    """Return True if the bracket that opens a text is closed by its last character."""
    deep = 0
    for i, c in enumerate(text):
        deep += (c == "(") - (c == ")")
        if deep == 0:
            return i > 0 and i == len(text) - 1
    return False


class Poly:
    """An integer polynomial over atoms: {sorted tuple of atoms: coefficient}."""

    __slots__ = ("_hash", "counts", "hint", "terms", "unsure")

    def __init__(self, terms: dict[tuple[Atom, ...], int]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self.hint = 0
        self.unsure = False  # True if it contains made-up numbers
        self.counts = False  # True if it is the size of a tensor, and so at least 0
        for mono, c in terms.items():
            for atom in mono:
                c *= atom.hint
                self.unsure = self.unsure or atom.unsure
            self.hint += c

    @staticmethod
    def of(x: Any) -> Poly:
        if type(x) is int:
            return _number(x)
        if isinstance(x, Poly):
            return x
        if isinstance(x, Atom):
            return Poly({(x,): 1})
        return x.poly if hasattr(x, "poly") else _number(int(x))  # a Dim, or a bool

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Poly) and self.terms == other.terms)

    @property
    def atom(self) -> Atom | None:
        """The atom, if the polynomial is nothing more than one."""
        if len(self.terms) != 1:
            return None
        ((mono, c),) = self.terms.items()
        return mono[0] if c == 1 and len(mono) == 1 else None

    @property
    def constant(self) -> int | None:
        if not self.terms:
            return 0
        if len(self.terms) == 1 and () in self.terms:
            return self.terms[()]
        return None

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for mono, c in other.terms.items():
            total = terms.get(mono, 0) + c
            if total:
                terms[mono] = total
            else:
                del terms[mono]
        return Poly(terms)

    def __neg__(self) -> Poly:
        return self * Poly.of(-1)

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        if len(other.terms) == 1 and () in other.terms:
            by = other.terms[()]
            return self if by == 1 else Poly({m: c * by for m, c in self.terms.items()})
        terms: dict[tuple[Atom, ...], int] = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in other.terms.items():
                mono = tuple(sorted(m1 + m2, key=str)) if m1 and m2 else m1 + m2
                total = terms.get(mono, 0) + c1 * c2
                if total:
                    terms[mono] = total
                else:
                    terms.pop(mono, None)
        return Poly(terms)

    def over(self, other: Poly) -> Poly | None:
        """The exact quotient, or None when there is none."""
        if len(other.terms) != 1:
            return self._over_several(other)
        (divisor, by), *_ = other.terms.items()
        terms = {}
        for mono, c in self.terms.items():
            left = list(mono)
            for atom in divisor:
                if atom not in left:
                    return None
                left.remove(atom)
            if c % by:
                return None
            terms[tuple(left)] = c // by
        return Poly(terms)

    def _over_several(self, other: Poly) -> Poly | None:
        """Divide at length: the leading term of the rest, by that of the divisor."""
        if not other.terms:
            return None
        atoms = sorted({a for p in (self, other) for m in p.terms for a in m}, key=str)

        def leading(poly: Poly) -> Poly:
            mono = max(poly.terms, key=lambda m: (len(m), [m.count(a) for a in atoms]))
            return Poly({mono: poly.terms[mono]})

        first, rest, quotient = leading(other), self, Poly.of(0)
        while rest.terms:
            step = leading(rest).over(first)
            if step is None:
                return None
            quotient = quotient + step
            rest = rest - step * other
        return quotient

    def named(self) -> bool:
        return all(a.named() for mono in self.terms for a in mono)

    def __str__(self) -> str:
        return self._spell(str)

    def __format__(self, _: str) -> str:
        """Return the text for people: see `Atom`."""
        return self._spell(format)

    def _spell(self, spell: Callable[[Any], str]) -> str:
        if not self.terms:
            return "0"
        parts = []
        for mono, c in sorted(self.terms.items(), key=lambda t: (-len(t[0]), text_of(t[0]))):
            atoms, c = factors_of(mono, c)
            factors = [spell(atom) for atom in sorted(atoms, key=str)]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            parts.append("-" * (c < 0) + "*".join(factors))
        return " + ".join(parts).replace("+ -", "- ")


def text_of(mono: tuple[Atom, ...]) -> str:
    """Return the sort key of a term: its text, which is the same in every run, unlike an id."""
    return "*".join(map(str, mono))


def part(size: Atom, n: int) -> Atom:
    """An nth of a size that is a multiple of n.

    Such a size is n times its part, so that what divides it, and multiplies it again, is the size.
    """
    return size if n == 1 else Atom("part", (size, n), size.hint // n)


def factors_of(mono: tuple[Atom, ...], c: int) -> tuple[list[Atom], int]:
    """Return the factors and number of a term, in whole sizes: 16 eighths are twice the size."""
    atoms = []
    for atom in mono:
        if atom.kind == "part":
            size, n = atom.args
            times = gcd(c, n)
            atom, c = part(size, n // times), c // times
        atoms.append(atom)
    return atoms, c


@functools.lru_cache(maxsize=1024)
def _number(n: int) -> Poly:
    return Poly({(): n} if n else {})
