"""Sizes that remember where they came from.

A `Dim` is an int: the size that was recorded, to Python and to torch. It also carries a
polynomial (see `size_polynomials`), so that the graph can compute it again at another size. Floats
derived from sizes (`x.shape[-1] ** -0.5`) are in `size_floats`.

When Python makes a plain number or an answer of a Dim (`int(dim)`, `bool(dim)`, a comparison), the
recording of this thread is told through `departures`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

from ...budget import BUDGET
from . import size_floats
from .bounds import settled
from .comparisons import SIGNS, Asked, itself
from .departures import decides, leaving, repeated
from .numpy_scalars import Scalar, goes_on, is_dynamic, plain, spelled
from .remainders import rounded
from .size_operations import binary
from .size_polynomials import Atom, Poly, part


def asked(ask: Any, *of: Any) -> Asked:
    """Make the question `ask(*of)`, where sizes are among `of`."""
    return Asked(ask, tuple(map(spelled, of)))


def baked(numbers: Iterable[Any]) -> dict[Asked, None]:
    """Return questions for the numbers that follow from sizes and are about to become plain."""
    return {asked(itself, n): None for n in numbers if is_dynamic(n)}


def _plain_int(x) -> bool:
    if isinstance(x, int):
        return True
    # Neither a tensor nor an array, which have it for those of one number.
    others = hasattr(x, "__torch_function__") or hasattr(x, "__array_function__")
    return hasattr(x, "__index__") and not others


def _compared(name: str, size: int, other: Any) -> Any:
    """Return what Python answers, which leaves a comparison with a float to the float."""
    if type(other) is float:
        return getattr(operator, name)(int.__int__(size), other)
    return getattr(int, name)(size, other)


def _whole_beside(sign: str, number: float) -> Any:
    """The integer that decides a comparison as a float does: n < 2.5 is n < 3; None if none does."""
    if not math.isfinite(number):
        return None
    if sign in ("==", "!="):
        return int(number) if number.is_integer() else None
    return math.ceil(number) if sign in ("<", ">=") else math.floor(number)


def dim(poly: Poly) -> int:
    """The polynomial as a number to compute with: a plain int when it is constant."""
    constant = poly.constant
    return Dim(rounded(poly)) if constant is None else constant


def ceil_div(a: int, b: int) -> int:
    # Written so that no negative number is divided: ONNX divides towards zero.
    return (a + (b - 1)) // b


def power_modulo(base, exponent, modulus):
    """`pow(base, exponent, modulus)`: by squares, each reduced, so that no step outgrows an int64."""
    whole = all(map(_plain_int, (base, exponent, modulus)))
    if not whole or is_dynamic(exponent) or exponent < 0:
        numbers = (base, exponent, modulus)
        if whole:
            leaving("int", "pow({}, {}, {})".format(*numbers), asked(int.__pow__, *numbers))
        return int.__pow__(*map(plain, numbers))
    result, square = 1 % modulus, base % modulus
    while exponent:
        if exponent & 1:
            result = result * square % modulus
        exponent >>= 1
        square = square * square % modulus if exponent else square
    return result


def bits_in(n, mask: int):
    """`n & mask`: each row of ones in the mask is a quotient's remainder."""
    if mask < 0:
        return n - bits_in(n, ~mask)
    found, low = 0, 0
    while mask >> low:
        if not mask >> low & 1:
            low += 1
            continue
        rest = mask >> low
        row = rest & ~(rest + 1)  # the lowest row of ones
        found = found + n // 2**low % (row + 1) * 2**low
        low += row.bit_length()
    return found


def common_divisor(*numbers):
    """math.gcd() that carries a size, if it is that of a size and a number."""
    plain_one = abs(math.gcd(*(n for n in numbers if not is_dynamic(n))))
    sizes = [n for n in numbers if is_dynamic(n)]
    if not 0 < plain_one <= BUDGET.elements.divisor or not all(type(n) is Dim for n in sizes):
        told = ", ".join(str(spelled(n)) for n in numbers)
        leaving("int", f"gcd({told})", asked(math.gcd, *numbers))
        return math.gcd(*map(plain, numbers))
    # Each divisor of all counts as often as smaller numbers have no divisor in common with it.
    found = 0
    for d in (d for d in range(1, plain_one + 1) if plain_one % d == 0):
        counts = sum(math.gcd(d, k) == 1 for k in range(1, d + 1))
        rests = [smaller(n % d, 1) for n in sizes]
        both = 1 - rests[0]
        for rest in rests[1:]:
            both = both * (1 - rest)
        found = found + both * counts
    return found


def common_multiple(a, b):
    """math.lcm() of two numbers that carries sizes."""
    return a * b // common_divisor(a, b)


def smaller(a, b):
    """min() that carries sizes."""
    return _pick("min", a, b)


def larger(a, b):
    """max() that carries sizes."""
    return _pick("max", a, b)


def _pick(kind, a, b):
    if isinstance(a, (size_floats.DimFloat, float)) or isinstance(b, (size_floats.DimFloat, float)):
        value = (min if kind == "min" else max)(*(float(plain(x)) for x in (a, b)))
        return size_floats.DimFloat(
            Atom(f"f{kind}", (size_floats.expression(a), size_floats.expression(b)), value)
        )
    return dim(binary(kind, Poly.of(a), Poly.of(b)))


class Dim(Scalar, int):
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

    def _picked(self, kind: str, other: Any) -> Any:
        return _pick(kind, self, other)

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

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        leaving("int", f"{self.poly} is pickled", asked(int, self))
        return int, (int.__int__(self),)

    # Arithmetic: integers stay integers, floats become `floats.DimFloat`, tensors take over.
    def __add__(self, other):
        if _plain_int(other):
            return dim(self.poly + Poly.of(other))
        return size_floats.compute("fadd", self, other)

    __radd__ = __add__

    def __neg__(self):
        return dim(self.poly * Poly.of(-1))

    def __pos__(self):
        return self

    def __abs__(self):
        return larger(self, -self)

    def __sub__(self, other):
        if _plain_int(other):
            return dim(self.poly + Poly.of(other) * Poly.of(-1))
        return size_floats.compute("fadd", self, other, sign=-1)

    def __rsub__(self, other):
        if _plain_int(other):
            return dim(Poly.of(other) + self.poly * Poly.of(-1))
        return size_floats.compute("fadd", -self, other)

    def __mul__(self, other):
        if _plain_int(other):
            return dim(self.poly * Poly.of(other))
        if isinstance(other, list):
            return repeated(other, self, self.poly.hint)
        if isinstance(other, (tuple, str, bytes)):
            leaving("repeat", "a sequence was repeated by a size", asked(int, self))
            return other * int.__int__(self)
        return size_floats.compute("fmul", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        if _plain_int(other):
            return dim(binary("div", self.poly, Poly.of(other)))
        return size_floats.floor_division(self, other)

    def __rfloordiv__(self, other):
        if _plain_int(other):
            return dim(binary("div", Poly.of(other), self.poly))
        return size_floats.floor_division(other, self)

    def __mod__(self, other):
        if _plain_int(other):
            return dim(binary("mod", self.poly, Poly.of(other)))
        return size_floats.remainder(self, other)

    def __rmod__(self, other):
        if _plain_int(other):
            return dim(binary("mod", Poly.of(other), self.poly))
        return size_floats.remainder(other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __truediv__(self, other):
        return size_floats.compute("fdiv", self, other)

    def __rtruediv__(self, other):
        return size_floats.compute("fdiv", other, self)

    def __pow__(self, other, modulo=None):
        if modulo is not None:
            return power_modulo(self, other, modulo)
        if _plain_int(other) and not isinstance(other, Dim) and other >= 0:
            result = Poly.of(1)
            for _ in range(other):
                result = result * self.poly
            return dim(result)
        return size_floats.compute("fpow", self, other)

    def __rpow__(self, other, modulo=None):
        if _plain_int(other):
            base = Poly.of(other)
            return dim(Poly.of(Atom("pow", (base, self.poly), base.hint**self.poly.hint)))
        return size_floats.compute("fpow", other, self)

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
        if _plain_int(other) and not is_dynamic(other):
            return bits_in(self, other)
        return self._bits("&", other, int.__and__)

    __rand__ = __and__

    def __or__(self, other):
        if _plain_int(other) and not is_dynamic(other):
            return self + other - bits_in(self, other)
        return self._bits("|", other, int.__or__)

    __ror__ = __or__

    def __xor__(self, other):
        if _plain_int(other) and not is_dynamic(other):
            return self + other - 2 * bits_in(self, other)
        return self._bits("^", other, int.__xor__)

    __rxor__ = __xor__

    def _bits(self, sign: str, other, function):
        if _plain_int(other):
            leaving("int", f"{self.poly} {sign} {other}", asked(function, self, other))
        return function(plain(self), plain(other))

    def bit_length(self):
        leaving("int", f"({self.poly}).bit_length()", asked(int.bit_length, self))
        return int.bit_length(self)

    def bit_count(self):
        leaving("int", f"({self.poly}).bit_count()", *goes_on(self))
        return plain(self).bit_count()

    def to_bytes(self, *args, **kwargs):
        leaving("int", f"({self.poly}).to_bytes()", asked(int, self))
        return int.to_bytes(plain(self), *args, **kwargs)

    # A plain number has these, too; without them they would be of the recorded one.
    real = numerator = property(lambda self: self)

    def conjugate(self):
        return self

    def as_integer_ratio(self):
        return self, 1

    def __round__(self, ndigits=None):
        if ndigits is not None and ndigits < 0:
            leaving("int", f"round({self.poly}, {ndigits})", asked(round, self, ndigits))
            return int.__round__(self, ndigits)
        return self

    def __floor__(self):
        return self

    def __ceil__(self):
        return self

    def __trunc__(self):
        return self

    # Departures. A comparison whose outcome is the same at every size is not a branch.
    def _compare(self, other, sign: str, outcome: bool) -> bool:
        if type(other) is float:
            other = _whole_beside(sign, other)
        if _plain_int(other) and self.poly != Poly.of(other):
            if not settled(sign, self.poly, Poly.of(other)):
                told = f"{self.poly} {sign} {other.poly if isinstance(other, Dim) else other}"
                return decides(told, asked(SIGNS[sign], self, other), outcome)
        return outcome

    def _is_size(self) -> bool:
        terms = self.poly.terms
        return all(c > 0 and all(a.kind == "size" for a in m) for m, c in terms.items())

    def __eq__(self, other):
        outcome = _compared("__eq__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "==", outcome)

    def __ne__(self, other):
        outcome = _compared("__ne__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "!=", outcome)

    def __lt__(self, other):
        outcome = _compared("__lt__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "<", outcome)

    def __le__(self, other):
        outcome = _compared("__le__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "<=", outcome)

    def __gt__(self, other):
        outcome = _compared("__gt__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, ">", outcome)

    def __ge__(self, other):
        outcome = _compared("__ge__", self, other)
        return outcome if outcome is NotImplemented else self._compare(other, ">=", outcome)

    def __hash__(self):
        # A lookup does not say what it is compared with: only keys of the same hash are.
        leaving("lookup", f"{self.poly} is looked up in a set or a dict")
        return int.__hash__(self)

    def __bool__(self):
        return decides(f"bool({self.poly})", asked(SIGNS["!="], self, 0), int.__bool__(self))

    def __int__(self):
        leaving("int", f"int({self.poly})", *goes_on(self))
        return int.__int__(self)

    def __float__(self):
        leaving("float", f"float({self.poly})", *goes_on(self))
        return int.__float__(self)

    def __sym_float__(self):
        """Return a float for torch.sym_float that, unlike float(), remembers its size."""
        return self * 1.0


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
