"""Bounds of sizes over all inputs, which settle some comparisons for good."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import gcd  # so with this one

from ...budget import BUDGET
from .size_polynomials import Atom, Poly


def never_negative(poly: Poly, steps: int = BUDGET.nodes.divisions) -> bool:
    """Return True when no size can make it negative."""
    if poly.hint < 0 and not poly.unsure:
        return False  # it is negative at the recorded sizes
    if poly.counts or all(_term_ok(mono, c, steps) for mono, c in poly.terms.items()):
        return True
    for find in (_without_rest, _undivided) if steps else ():
        lower = find(poly)
        if lower is not None:
            if never_negative(lower, steps - 1):
                return True
            if (
                steps < BUDGET.nodes.divisions
            ):  # deeper, only one way is followed: their number doubles each time
                break
    return False


def _without_rest(poly: Poly) -> Poly | None:
    """Return a lower bound without a remainder that is subtracted: all that was divided, if that is
    there, as in n - n % d; or the largest remainder, d - 1. None if no remainder is subtracted.
    """
    for mono, c in poly.terms.items():
        (atom,) = mono if len(mono) == 1 else (None,)
        if atom is None or atom.kind != "mod" or c > 0 or not never_negative(atom.args[0]):
            continue
        rest, (size, by) = poly + Poly({mono: -c}), atom.args
        if all(rest.terms.get(each, 0) >= -c * n > 0 for each, n in size.terms.items()):
            return rest + size * Poly.of(c)
        if by.constant and by.constant > 0:
            return rest + Poly.of(c * (by.constant - 1))
    return None


def _undivided(poly: Poly) -> Poly | None:
    """Return a lower bound, times the divisor, without one of its divisions: n // d is at most n /
    d, and at least (n - d + 1) / d. None if there is no division, or nothing is subtracted.
    """
    if all(c > 0 for c in poly.terms.values()):
        return None
    for mono, c in sorted(poly.terms.items(), key=lambda term: term[1] > 0):
        for atom in mono:
            by = atom.args[1].constant if atom.kind == "div" else None
            others = list(mono)
            others.remove(atom)
            if by and by > 0 and _term_ok(tuple(others), 1, 0):
                least = atom.args[0] + Poly.of(1 - by if c > 0 else 0)
                return (poly + Poly({mono: -c})) * Poly.of(by) + Poly({tuple(others): c}) * least
    return None


def _term_ok(mono: tuple[Atom, ...], c: int, steps: int) -> bool:
    if c < 0:  # -(-n // 4), which rounds up
        (atom,) = mono if len(mono) == 1 else (None,)
        if atom is None or atom.kind != "div" or not steps:
            return False
        return never_negative(-atom.args[0], steps - 1) and never_negative(atom.args[1], steps - 1)
    return all(a.kind in ("size", "part", "mod") or _atom_ok(a) for a in mono)


def _atom_ok(atom: Atom) -> bool:
    if "never negative" not in atom.facts:
        atom.facts["never negative"] = _found_ok(atom)
    return atom.facts["never negative"]


def _found_ok(atom: Atom) -> bool:
    if atom.kind in ("div", "min", "max", "pow", "and"):
        a, b = map(never_negative, atom.args)
        return (a or b) if atom.kind in ("max", "and") else (a and b)
    return atom.kind in ("floor", "ceil", "round", "trunc") and _float_ok(atom.args[0])


def _float_ok(atom: Atom) -> bool:
    """Return True when a float that was computed from sizes is never negative."""
    if atom.kind == "fnum":
        return atom.args[0] >= 0
    if atom.kind == "int":
        return never_negative(atom.args[0])
    return atom.kind in ("fadd", "fmul", "fdiv", "fpow") and all(map(_float_ok, atom.args))


def sure_sign(poly: Poly) -> int:
    """Return 1 if it is never negative, -1 if always, and 0 if that depends on the sizes.

    An input has at least one element on every axis: from 1 up, `n - 1` is not negative.
    """
    if never_negative(poly):
        return 1
    low, high = _bounds(_from_one(poly), _anything, _something)
    return 1 if low >= 0 else -1 if high < 0 else 0


def _from_one(poly: Poly) -> Poly:
    """Write every size of an input as `size + 1`, so that terms cancel."""
    total = Poly.of(0)
    for mono, c in poly.terms.items():
        term = Poly.of(c)
        for atom in mono:
            term = term * (Poly.of(atom) + Poly.of(_least_size(atom)))
        total = total + term
    return total


def _least_size(atom: Atom) -> int:
    if atom.kind == "part":  # of something, too
        return _least_size(atom.args[0])
    return int(atom.kind == "size" and isinstance(atom.args[0], str))


Leaf = Callable[[Atom], tuple[float, float]]  # the bounds of the size of an axis


def _something(atom: Atom) -> tuple[float, float]:
    return _least_size(atom), math.inf


def _anything(atom: Atom) -> tuple[float, float]:
    return 0, math.inf


def _limited(atom: Atom) -> tuple[float, float]:
    """Return the limits that `dynamic=` gives an atom."""
    if atom.kind == "part":
        size, n = atom.args
        low, high = _limited(size)
        return -(-low // n), high // n if math.isfinite(high) else high
    return atom.limits


def _bounds(poly: Poly, leaf: Leaf, within: Leaf) -> tuple[float, float]:
    """Return a lower and an upper bound; `within` bounds the parts of divisions and comparisons."""
    low = high = 0.0
    for mono, c in poly.terms.items():
        a, b = float(c), float(c)
        for atom in mono:
            lower, upper = _atom_bounds(atom, leaf, within)
            if lower < 0:
                return -math.inf, math.inf
            a, b = (a * lower if lower else 0.0), (b * upper if b else 0.0)
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def _atom_bounds(atom: Atom, leaf: Leaf, within: Leaf) -> tuple[float, float]:
    if atom.kind in ("size", "part"):
        return leaf(atom)
    if atom.kind not in ("div", "mod", "min", "max"):
        return -math.inf, math.inf
    if within not in atom.facts:
        atom.facts[within] = _found_bounds(atom, within)
    return atom.facts[within]


def _found_bounds(atom: Atom, within: Leaf) -> tuple[float, float]:
    (a, b), (c, d) = (_bounds(each, within, within) for each in atom.args)
    if atom.kind in ("min", "max"):
        pick = min if atom.kind == "min" else max
        return pick(a, c), pick(b, d)
    if c < 1:
        return -math.inf, math.inf
    if atom.kind == "mod":
        return 0, d - 1
    # The divisor that brings a number nearest to zero, or farthest below it.
    low = a // (d if a >= 0 else c) if math.isfinite(a) else a
    return low, b // (c if b >= 0 else d) if math.isfinite(b) else b


def settled(sign: str, a: Poly, b: Poly) -> bool:
    """Return True if a comparison has the same outcome at every possible size."""
    gap, one = a - b, Poly.of(1)
    low, high = _bounds(gap, _limited, _limited)
    above, below = low > 0 or never_negative(gap - one), high < 0 or never_negative(-gap - one)
    if sign in ("==", "!="):
        return above or below or _never_zero(gap)
    if sign in (">=", "<"):
        return low >= 0 or never_negative(gap) or below
    return above or high <= 0 or never_negative(-gap)


def named_part(poly: Poly) -> Poly | None:
    """Return the named sizes in a sum of which no term is negative: it is 0 only if they are.

    None for any other sum, and for one that has nothing else in it.
    """
    if not all(never_negative(Poly({mono: c})) for mono, c in poly.terms.items()):
        return None
    terms = {mono: c for mono, c in poly.terms.items() if all(atom.named() for atom in mono)}
    return Poly(terms) if terms and len(terms) < len(poly.terms) else None


def _never_zero(poly: Poly) -> bool:
    """Return True if its terms share a factor that its constant is not a multiple of."""
    return poly.terms.get((), 0) % (gcd(*(c for mono, c in poly.terms.items() if mono)) or 1) != 0
