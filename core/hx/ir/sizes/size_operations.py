"""Floor division, modulo, minimum, maximum and common bits of sizes, in normal form."""

from __future__ import annotations

from .bounds import never_negative, sure_sign
from .size_polynomials import Atom, Poly


def binary(kind: str, a: Poly, b: Poly) -> Poly:
    """Floor division, modulo, minimum, maximum, bits of two polynomials, in normal form."""
    if kind in ("min", "max"):
        if a == b:
            return a
        for lower, upper in ((a, b), (b, a)):
            if never_negative(upper - lower):
                return lower if kind == "min" else upper
        first, second = sorted((a, b), key=str)
        pick = min if kind == "min" else max
        return Poly.of(Atom(kind, (first, second), pick(a.hint, b.hint)))
    if kind == "and":
        if a == b:
            return a
        first, second = sorted((a, b), key=str)
        return Poly.of(Atom(kind, (first, second), a.hint & b.hint))
    if kind == "div":
        exact = a.over(b)
        if exact is not None:
            return exact
        whole, rest = _rest(a, b)
        if whole is not None:
            return whole + Poly.of(rest // b.hint)
        return Poly.of(Atom("div", (a, b), a.hint // b.hint))
    exact = a.over(b)
    if exact is not None:
        return Poly.of(0)
    whole, rest = _rest(a, b)
    if whole is not None:
        return Poly.of(rest % b.hint)
    return Poly.of(Atom("mod", (a, b), a.hint % b.hint))


def _rest(a: Poly, b: Poly) -> tuple[Poly | None, int]:
    """a without its constant, divided by the number b, and that constant; None if b leaves a
    rest.
    """
    rest = a.terms.get((), 0)
    if not b.constant or not rest:
        return None, rest
    return (a + Poly.of(-rest)).over(b), rest


def from_something(poly: Poly) -> Poly:
    """Simplify for inputs that are not empty on any axis: max(n - 1, 0) is n - 1 there."""
    total = Poly.of(0)
    for mono, c in poly.terms.items():
        term = Poly.of(c)
        for atom in mono:
            term = term * _atom_from_something(atom)
        total = total + term
    return total


def _atom_from_something(atom: Atom) -> Poly:
    if atom.kind not in ("div", "mod", "min", "max"):
        return Poly.of(atom)
    if "from something" not in atom.facts:
        atom.facts["from something"] = _found_from_something(atom)
    return atom.facts["from something"]


def _found_from_something(atom: Atom) -> Poly:
    a, b = map(from_something, atom.args)
    for lower, upper in ((a, b), (b, a)):
        if atom.kind in ("min", "max") and sure_sign(upper - lower) > 0:
            return lower if atom.kind == "min" else upper
    return binary(atom.kind, a, b)
