"""Floats that were computed from sizes (`x.shape[-1] ** -0.5`), and remember how.

Rounding one gives a size again: this module and `dims` create each other's numbers.
"""

from __future__ import annotations

import math
from typing import Any

from . import dims
from .bounds import settled
from .comparisons import SIGNS, Asked
from .departures import decides, leaving
from .numpy_scalars import Scalar
from .size_polynomials import Atom, Poly

_DIGITS = 8  # decimals that a number is rounded to


class DimFloat(Scalar, float):
    """A float that was computed from sizes, and remembers how."""

    expr: Atom

    def __new__(cls, expr: Atom):
        self = float.__new__(cls, expr.hint)
        self.expr = expr
        return self

    @property
    def _formula(self) -> Atom:
        return self.expr

    def _picked(self, kind: str, other):
        return dims._pick(kind, self, other)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        leaving("float", f"{self.expr} is pickled", dims.asked(float, self))
        return float, (float.__float__(self),)

    @staticmethod
    def whole(x: float, kind: str):
        """floor, ceil, round or trunc of a float, as an integer that still remembers."""
        function: Any = {
            "floor": math.floor,
            "ceil": math.ceil,
            "round": round,
            "trunc": math.trunc,
        }
        plain = function[kind](float.__float__(x))
        if not isinstance(x, DimFloat):
            return plain
        poly = _whole_number(x.expr)
        if poly is not None and poly.hint == plain:
            return dims.dim(poly)  # there is nothing to be rounded
        return dims.Dim(Poly.of(Atom(kind, (x.expr,), plain)))

    def __add__(self, other):
        return compute("fadd", self, other)

    __radd__ = __add__

    def __sub__(self, other):
        return compute("fadd", self, other, sign=-1)

    def __rsub__(self, other):
        return compute("fadd", -self, other)

    def __neg__(self):
        return compute("fmul", self, -1.0)

    def __pos__(self):
        return self

    def __abs__(self):
        return dims.larger(self, -self)

    def __floordiv__(self, other):
        return floor_division(self, other)

    def __rfloordiv__(self, other):
        return floor_division(other, self)

    def __mod__(self, other):
        return remainder(self, other)

    def __rmod__(self, other):
        return remainder(other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    real = property(lambda self: self)

    def conjugate(self):
        return self

    def is_integer(self):
        if self.expr.kind == "fdiv":
            a, b = map(_whole_number, self.expr.args)
            if a is not None and b is not None:
                return dims.dim(a) % dims.dim(b) == 0
        if _whole_number(self.expr) is None:
            leaving("branch", f"({self.expr}).is_integer()", dims.asked(float.is_integer, self))
        return float.is_integer(self)

    def __mul__(self, other):
        return compute("fmul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return compute("fdiv", self, other)

    def __rtruediv__(self, other):
        return compute("fdiv", other, self)

    def __pow__(self, other, modulo=None):
        return compute("fpow", self, other)

    def __rpow__(self, other, modulo=None):
        return compute("fpow", other, self)

    def __floor__(self):
        return DimFloat.whole(self, "floor")

    def __ceil__(self):
        return DimFloat.whole(self, "ceil")

    def __trunc__(self):
        return DimFloat.whole(self, "trunc")

    def __round__(self, ndigits=None):
        if ndigits is None:
            return DimFloat.whole(self, "round")
        plain = float.__round__(self, ndigits)
        if type(ndigits) is int and 0 <= ndigits <= _DIGITS:
            # The product of a former float32 is exact: ties round as in Python.
            rounded = DimFloat.whole(self * 10.0**ndigits, "round") / 10.0**ndigits
            if float.__eq__(plain, dims.plain(rounded)):
                return rounded
        leaving("float", f"round({self.expr}, {ndigits})", dims.asked(round, self, ndigits))
        return plain

    def __int__(self):
        leaving("int", f"int({self.expr})", dims.asked(int, self))
        return float.__int__(self)

    def __float__(self):
        leaving("float", f"float({self.expr})", *dims.goes_on(self))
        return float.__float__(self)

    def __sym_float__(self):
        return self

    def __bool__(self):
        asked = dims.asked(SIGNS["!="], self, 0)
        return decides(f"bool({self.expr})", asked, float.__bool__(self))

    def __eq__(self, other):
        return self._compare(other, "==", float.__eq__(self, other))

    def __ne__(self, other):
        return self._compare(other, "!=", float.__ne__(self, other))

    def __lt__(self, other):
        return self._compare(other, "<", float.__lt__(self, other))

    def __le__(self, other):
        return self._compare(other, "<=", float.__le__(self, other))

    def __gt__(self, other):
        return self._compare(other, ">", float.__gt__(self, other))

    def __ge__(self, other):
        return self._compare(other, ">=", float.__ge__(self, other))

    def _compare(self, other, sign, outcome):
        if outcome is not NotImplemented:
            a, b = _whole_number(self.expr), _whole_number(expression(other))
            if a is None or b is None or not (a == b or settled(sign, a, b)):
                told = f"{self.expr} {sign} {other}"
                return decides(told, dims.asked(SIGNS[sign], self, other), outcome)
        return outcome

    def __hash__(self):
        leaving("lookup", "a number computed from sizes is looked up in a set or a dict")
        return float.__hash__(self)


def expression(x) -> Atom:
    """Return the expression that a number was computed by."""
    if isinstance(x, DimFloat):
        return x.expr
    if isinstance(x, dims.Dim):
        return Atom("int", (x.poly,), float(x.poly.hint))
    return Atom("fnum", (float(x),), float(x))


def _whole_number(expr: Atom) -> Poly | None:
    """Return it as an integer, if it is one at every size: n * 2.0, and n / 4 of multiples of 4.

    Floats compute such numbers without any rounding, as long as they are smaller than 2**53.
    """
    if expr.kind == "int":
        return expr.args[0]
    if expr.kind == "fnum":
        return Poly.of(int(expr.args[0])) if expr.args[0].is_integer() else None
    if expr.kind not in ("fadd", "fmul", "fdiv"):
        return None
    a, b = map(_whole_number, expr.args)
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


_FLOAT: dict[str, Any] = {
    "fadd": lambda a, b: a + b,
    "fmul": lambda a, b: a * b,
    "fdiv": lambda a, b: a / b,
    "fpow": lambda a, b: a**b,
}


def compute(kind: str, a, b, sign: int = 1):
    """The kind's operation on two numbers; that on the second, negated, where the sign is."""
    for x in (a, b):
        if not isinstance(x, (int, float)):
            return NotImplemented
    left, right = expression(a), expression(b)
    if sign < 0:
        minus = Atom("fnum", (-1.0,), -1.0)
        right = Atom("fmul", (right, minus), -right.hint)
    hint = _FLOAT[kind](left.hint, right.hint)
    if isinstance(hint, complex):
        leaving("float", f"{left} {kind} {right}", Asked(_FLOAT[kind], (left, right)))
        return hint
    return DimFloat(Atom(kind, (left, right), hint))


def floor_division(a, b):
    """Floor division where one side is a float: a whole number, as a float."""
    quotient = compute("fdiv", a, b)
    if quotient is NotImplemented:
        return quotient
    whole = DimFloat.whole(quotient, "floor")
    return DimFloat(expression(whole))


def remainder(a, b):
    """Return the remainder of the floor division of `a` by `b`."""
    times = floor_division(a, b)
    return times if times is NotImplemented else a - times * b


def function(kind: str, x, value: float) -> DimFloat:
    """Apply a function such as "flog" or "fsin" to a size; `value` is the recorded result."""
    return DimFloat(Atom(kind, (expression(x),), value))
