"""Expressions of floats that are computed from sizes, such as `x.shape[-1] ** -0.5`."""

from __future__ import annotations

import math
from typing import Any

from .numpy_scalars import spelled
from .size_polynomials import Atom, Poly


def expression(x) -> Atom:
    """Return the expression that a number was computed by."""
    formula = spelled(x)
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Poly):
        return Atom("int", (formula,), float(formula.hint))
    return Atom("fnum", (float(x),), float(x))


def whole_number(expr: Atom) -> Poly | None:
    """Return it as an integer, if it is one at every size: n * 2.0, and n / 4 of multiples of 4.

    Floats compute such numbers without any rounding, as long as they are smaller than 2**53.
    """
    if expr.kind == "int":
        return expr.args[0]
    if expr.kind == "fnum":
        return Poly.of(int(expr.args[0])) if expr.args[0].is_integer() else None
    if expr.kind not in ("fadd", "fmul", "fdiv"):
        return None
    a, b = map(whole_number, expr.args)
    if expr.kind == "fmul" and a is not None and b is None:
        return _share(a, expr.args[1])
    if expr.kind == "fmul" and b is not None and a is None:
        return _share(b, expr.args[0])
    if a is None or b is None:
        return None
    return a + b if expr.kind == "fadd" else a * b if expr.kind == "fmul" else a.over(b)


def _share(poly: Poly, expr: Atom) -> Poly | None:
    """Return such a fraction of a polynomial as 0.25, if that is a whole number."""
    if expr.kind != "fnum" or not math.isfinite(expr.args[0]):
        return None
    numerator, denominator = expr.args[0].as_integer_ratio()
    return (poly * Poly.of(numerator)).over(Poly.of(denominator))


def whole_beside(sign: str, number: float) -> Any:
    """The integer that decides a comparison as a float does: n < 2.5 is n < 3; None if none does."""
    if not math.isfinite(number):
        return None
    if sign in ("==", "!="):
        return int(number) if number.is_integer() else None
    return math.ceil(number) if sign in ("<", ">=") else math.floor(number)
