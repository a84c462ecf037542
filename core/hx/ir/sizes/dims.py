"""Sizes that remember where they came from, and floats that were computed from them.

A `Dim` is an int: the size that was recorded, to Python and to torch. It also carries a
polynomial (see `size_polynomials`), so that the graph can compute it again at another size. A
`DimFloat` is a float that was computed from sizes (`x.shape[-1] ** -0.5`), and carries an
expression. Dividing the one makes the other, and rounding that makes a size again.

When Python makes a plain number or an answer of a Dim (`int(dim)`, `bool(dim)`, a comparison), the
recording of this thread is told through `departures`.
"""

from __future__ import annotations

import math
from typing import Any

from .bounds import named_part, never_negative, settled
from .comparisons import COMPUTED, SIGNS, Asked
from .departures import decides, leaving, looked_up, repeated
from .float_expressions import expression, whole_beside, whole_number
from .integer_functions import are_integers, bits_in, is_integer, ones_in, power_modulo, rounded_to
from .numpy_scalars import Scalar, asked, goes_on, is_dynamic, larger, plain
from .numpy_scalars import baked as baked
from .numpy_scalars import smaller as smaller
from .numpy_scalars import spelled as spelled
from .remainders import rounded
from .size_operations import binary
from .size_polynomials import Atom, Poly, part

_DIGITS = 8  # decimals that a number is rounded to


def dim(poly: Poly) -> int:
    """The polynomial as a number to compute with: a plain int when it is constant."""
    constant = poly.constant
    return Dim(rounded(poly)) if constant is None else constant


class _Number(Scalar):
    """Methods that sizes and floats computed from them share."""

    __slots__ = ()

    def _compare(self, other: Any, sign: str, name: str) -> Any:
        """Return Python's answer (of the method `name`), and report the question if it is open."""
        raise NotImplementedError

    @staticmethod
    def _picked(kind: str, a: Any, b: Any) -> Any:
        if isinstance(a, float) or isinstance(b, float):
            value = (min if kind == "min" else max)(float(plain(a)), float(plain(b)))
            return DimFloat(Atom(f"f{kind}", (expression(a), expression(b)), value))
        return dim(binary(kind, Poly.of(a), Poly.of(b)))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # A plain number has these, too; without them they would be of the recorded one.
    real = property(lambda self: self)

    def conjugate(self):
        return self

    def __pos__(self):
        return self

    def __abs__(self):
        return larger(self, -self)  # type: ignore[operator]  # Dim and DimFloat can

    # Arithmetic: whole numbers stay whole, floats become a `DimFloat`, tensors take over.
    def __add__(self, other):
        if are_integers(self, other):
            return dim(Poly.of(self) + Poly.of(other))
        return compute("fadd", self, other)

    __radd__ = __add__

    def __sub__(self, other):
        if are_integers(self, other):
            return dim(Poly.of(self) - Poly.of(other))
        return compute("fadd", self, other, sign=-1)

    def __rsub__(self, other):
        if are_integers(self, other):
            return dim(Poly.of(other) - Poly.of(self))
        return compute("fadd", -self, other)  # type: ignore[operator]  # Dim and DimFloat can

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

    def __truediv__(self, other):
        return compute("fdiv", self, other)

    def __rtruediv__(self, other):
        return compute("fdiv", other, self)

    # A comparison whose outcome is the same at every size is not a branch.
    def __eq__(self, other):
        return self._compare(other, "==", "__eq__")

    def __ne__(self, other):
        return self._compare(other, "!=", "__ne__")

    def __lt__(self, other):
        return self._compare(other, "<", "__lt__")

    def __le__(self, other):
        return self._compare(other, "<=", "__le__")

    def __gt__(self, other):
        return self._compare(other, ">", "__gt__")

    def __ge__(self, other):
        return self._compare(other, ">=", "__ge__")


class Dim(_Number, int):
    """An int that came from a tensor's shape, and remembers how."""

    poly: Poly

    def __new__(cls, poly: Poly):
        if not isinstance(poly, Poly):  # a library makes a number of the type of another
            return math.trunc(poly)
        self = int.__new__(cls, poly.hint)
        self.poly = poly
        return self

    @property
    def _formula(self) -> Poly:
        return self.poly

    @staticmethod
    def leaf(
        source, axis: int, hint: int, step: int = 1, low: float = 0, high: float = math.inf
    ) -> Dim:
        """Make the size of an axis, which is a multiple of `step`, from `low` to `high`."""
        atom = Atom("size", (source, axis), hint)
        atom.limits = (low, high)
        return Dim(Poly({(part(atom, step),): step}))

    @staticmethod
    def unsure(source, axis: int) -> Dim:
        """Make a size that is known only after the call; until then 1 stands for it."""
        return Dim(Poly.of(Atom("size", (source, axis), 1, unsure=True)))

    def __reduce__(self):
        leaving("int", f"{self.poly} is pickled", *goes_on(self))
        return int, (int.__int__(self),)

    def __neg__(self):
        return dim(-self.poly)

    def __mul__(self, other):
        if is_integer(other):
            return dim(self.poly * Poly.of(other))
        if isinstance(other, list):
            return repeated(other, self, self.poly.hint)
        if isinstance(other, (tuple, str, bytes)):
            of_items = type(other) is tuple
            asks = (asked(int, self),) if of_items else goes_on(self)
            leaving("repeat", "a sequence was repeated by a size", *asks)
            return other * int.__int__(self)
        return compute("fmul", self, other)

    __rmul__ = __mul__

    def __pow__(self, other, modulo=None):
        if modulo is not None:
            return power_modulo(self, other, modulo)
        if is_integer(other) and not isinstance(other, Dim) and other >= 0:
            result = Poly.of(1)
            for _ in range(other):
                result = result * self.poly
            return dim(result)
        return compute("fpow", self, other)

    def __rpow__(self, other, modulo=None):
        if is_integer(other):
            base = Poly.of(other)
            return dim(Poly.of(Atom("pow", (base, self.poly), base.hint**self.poly.hint)))
        return compute("fpow", other, self)

    def __lshift__(self, other):
        return self * 2**other

    def __rlshift__(self, other):
        return other * 2**self

    def __rshift__(self, other):
        return self // 2**other

    def __rrshift__(self, other):
        return other // 2**self

    def __invert__(self):
        return -self - 1

    def __and__(self, other):
        if not is_integer(other):
            return NotImplemented
        if is_dynamic(other):
            return dim(binary("and", Poly.of(self), Poly.of(other)))
        return bits_in(self, other)

    __rand__ = __and__

    def __or__(self, other):
        return self + other - (self & other) if is_integer(other) else NotImplemented

    __ror__ = __or__

    def __xor__(self, other):
        return self + other - 2 * (self & other) if is_integer(other) else NotImplemented

    __rxor__ = __xor__

    def bit_length(self):
        return digits_in(self if never_negative(self.poly) else abs(self))

    def bit_count(self):
        return ones_in(self if never_negative(self.poly) else abs(self))

    def to_bytes(self, *args, **kwargs):
        leaving("int", f"({self.poly}).to_bytes()", *goes_on(self))
        return int.to_bytes(plain(self), *args, **kwargs)

    numerator = property(lambda self: self)

    def as_integer_ratio(self):
        return self, 1

    def __round__(self, ndigits=None):
        return self if ndigits is None or ndigits >= 0 else rounded_to(self, 10**-ndigits)

    def __floor__(self):
        return self

    def __ceil__(self):
        return self

    def __trunc__(self):
        return self

    def _compare(self, other, sign: str, name: str) -> Any:
        if type(other) is float:
            outcome = SIGNS[sign](int.__int__(self), other)
            other = whole_beside(sign, other)
        else:
            outcome = getattr(int, name)(self, other)
        if is_integer(other) and self.poly != Poly.of(other):
            if not settled(sign, self.poly, Poly.of(other)):
                told = f"{self.poly} {sign} {other.poly if isinstance(other, Dim) else other}"
                return decides(told, self._asked(sign, other), outcome)
        return outcome

    def _asked(self, sign: str, other) -> Asked:
        """Return the question of a comparison, reduced to named sizes if these decide it unless they are 0."""
        named = named_part(self.poly - Poly.of(other))
        if named is not None and named.hint > 0 and sign in ("==", "!=", ">", "<="):
            return Asked(SIGNS[sign], (named, 0))
        return asked(SIGNS[sign], self, other)

    def __hash__(self):
        # A lookup does not say what it is compared with: only keys of the same hash are.
        looked_up(self, "lookup", f"{self.poly} is looked up in a set or a dict")
        return int.__hash__(self)

    def __bool__(self):
        return decides(f"bool({self.poly})", asked(SIGNS["!="], self, 0), int.__bool__(self))

    def __int__(self):
        leaving("int", f"int({self.poly})", *goes_on(self))
        return int.__int__(self)

    def __index__(self):  # C never calls it: any int is an index as it is
        leaving("int", f"({self.poly}).__index__()", *goes_on(self))
        return int.__int__(self)

    def __float__(self):
        leaving("float", f"float({self.poly})", *goes_on(self))
        return int.__float__(self)

    def __sym_float__(self):
        """Return a float for torch.sym_float that, unlike float(), remembers its size."""
        return self * 1.0


class DimFloat(_Number, float):
    """A float that was computed from sizes, and remembers how."""

    expr: Atom

    def __new__(cls, expr: Atom):
        self = float.__new__(cls, expr.hint)
        self.expr = expr
        return self

    @property
    def _formula(self) -> Atom:
        return self.expr

    def __reduce__(self):
        leaving("float", f"{self.expr} is pickled", asked(float, self))
        return float, (float.__float__(self),)

    @staticmethod
    def whole(x: float, kind: str):
        """floor, ceil, round or trunc of a float, as an integer that still remembers."""
        number = COMPUTED[kind](float.__float__(x))
        if not isinstance(x, DimFloat):
            return number
        poly = whole_number(x.expr)
        if poly is not None and poly.hint == number:
            return dim(poly)  # there is nothing to be rounded
        return Dim(Poly.of(Atom(kind, (x.expr,), number)))

    def __neg__(self):
        return compute("fmul", self, -1.0)

    def is_integer(self):
        if self.expr.kind == "fdiv":
            a, b = map(whole_number, self.expr.args)
            if a is not None and b is not None:
                return dim(a) % dim(b) == 0
        if whole_number(self.expr) is None:
            leaving("branch", f"({self.expr}).is_integer()", asked(float.is_integer, self))
        return float.is_integer(self)

    def __mul__(self, other):
        return compute("fmul", self, other)

    __rmul__ = __mul__

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
        number = float.__round__(self, ndigits)
        if type(ndigits) is int and 0 <= ndigits <= _DIGITS:
            # The product of a former float32 is exact: ties round as in Python.
            nearest = DimFloat.whole(self * 10.0**ndigits, "round") / 10.0**ndigits
            if float.__eq__(number, plain(nearest)):
                return nearest
        leaving("float", f"round({self.expr}, {ndigits})", asked(round, self, ndigits))
        return number

    def as_integer_ratio(self):
        leaving("float", f"({self.expr}).as_integer_ratio()", *goes_on(self))
        return float.as_integer_ratio(self)

    def hex(self):
        leaving("float", f"({self.expr}).hex()", *goes_on(self))
        return float.hex(self)

    def __int__(self):
        leaving("int", f"int({self.expr})", asked(int, self))
        return float.__int__(self)

    def __float__(self):
        leaving("float", f"float({self.expr})", *goes_on(self))
        return float.__float__(self)

    def __sym_float__(self):
        return self

    def __bool__(self):
        return decides(f"bool({self.expr})", asked(SIGNS["!="], self, 0), float.__bool__(self))

    def _compare(self, other, sign: str, name: str) -> Any:
        outcome = getattr(float, name)(self, other)
        if outcome is not NotImplemented:
            a, b = whole_number(self.expr), whole_number(expression(other))
            if a is None or b is None or not (a == b or settled(sign, a, b)):
                told = f"{self.expr} {sign} {other}"
                return decides(told, asked(SIGNS[sign], self, other), outcome)
        return outcome

    def __hash__(self):
        looked_up(self, "lookup", "a number computed from sizes is looked up in a set or a dict")
        return float.__hash__(self)


def compute(kind: str, a, b, sign: int = 1):
    """The kind's operation on two numbers; that on the second, negated, where the sign is."""
    for x in (a, b):
        if not isinstance(x, (int, float)):
            return NotImplemented
    left, right = expression(a), expression(b)
    if sign < 0:
        minus = Atom("fnum", (-1.0,), -1.0)
        right = Atom("fmul", (right, minus), -right.hint)
    hint = COMPUTED[kind](left.hint, right.hint)
    if isinstance(hint, complex):
        leaving("float", f"{left} {kind} {right}", Asked(COMPUTED[kind], (left, right)))
        return hint
    return DimFloat(Atom(kind, (left, right), hint))


def floor_division(a, b):
    """Return the quotient of two numbers, rounded down: a float if one of them is a float."""
    if are_integers(a, b):
        return dim(binary("div", Poly.of(a), Poly.of(b)))
    quotient = compute("fdiv", a, b)
    if quotient is NotImplemented:
        return quotient
    return DimFloat(expression(DimFloat.whole(quotient, "floor")))


def remainder(a, b):
    """Return the remainder of the floor division of `a` by `b`."""
    if are_integers(a, b):
        return dim(binary("mod", Poly.of(a), Poly.of(b)))
    times = floor_division(a, b)
    return times if times is NotImplemented else a - times * b


def function(kind: str, x, value: float) -> DimFloat:
    """Apply a function such as "flog" or "fsin" to a size; `value` is the recorded result."""
    return DimFloat(Atom(kind, (expression(x),), value))


def digits_in(n):
    """n.bit_length(), by a logarithm that no rounding moves across a whole number."""
    between = n + 0.5
    natural = function("flog", between, math.log(plain(between)))
    return math.floor(natural / math.log(2)) + 1


def smallest_of(x) -> tuple[Poly, ...]:
    """The sizes of which it is the smallest: those of min(a, b)."""
    return _picked_from(x, "min")


def largest_of(x) -> tuple[Poly, ...]:
    """The sizes of which it is the largest: those of max(a, b)."""
    return _picked_from(x, "max")


def _picked_from(x, kind: str) -> tuple[Poly, ...]:
    atom = x.poly.atom if type(x) is Dim else None
    return atom.args if atom is not None and atom.kind == kind else ()


def found(x: Any, source: Any, axis: int, hint: int) -> Dim:
    """Replace an unsure size, now that its number is known, by the size of an axis of a source.

    Several results that share the unsure size share the new one.
    """
    atom = x.poly.atom
    if atom is not None and atom.kind == "size":
        source, axis = atom.args
    return Dim.leaf(source, axis, hint)
