"""Sizes that remember where they came from.

A `Dim` is an int: the size that was recorded, to Python and to torch. It also carries a
polynomial (see `polynomials`), so that the graph can compute it again at another size.

`floats` has the same for floats derived from sizes (`x.shape[-1] ** -0.5`).

What Python cannot carry (`int(dim)`, `bool(dim)`, a comparison) is reported to the recording of
this thread through `leaving`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from . import floats
from .asked import SIGNS, Asked, itself
from .leaving import decides, leaving
from .leftover import rounded
from .operations import binary
from .polynomials import Atom, Poly, part
from .scalars import KINDS, Scalar
from .signs import settled


def asked(ask: Any, *of: Any) -> Asked:
    """`ask(*of)`, where sizes are among these."""
    return Asked(ask, tuple(map(spelled, of)))


def baked(numbers: Iterable[Any]) -> dict[Asked, None]:
    """Those of the numbers that sizes decide, as something else makes plain numbers of them."""
    return {asked(itself, n): None for n in numbers if is_dynamic(n)}


FAR = 4  # times a size


def goes_on(x: Any) -> tuple[Asked, ...]:
    """A number that goes on where nobody sees what is asked of it: one far off may be another case."""
    far = Asked(SIGNS[">="], (spelled(x), FAR * plain(x) + 3), guessed=True)
    return asked(int if type(x) is Dim else float, x), far


def _plain_int(x) -> bool:
    if isinstance(x, int):
        return True
    # Neither a tensor nor an array, which have it for those of one number.
    others = hasattr(x, "__torch_function__") or hasattr(x, "__array_function__")
    return hasattr(x, "__index__") and not others


def dim(poly: Poly) -> int:
    """The polynomial as a number to compute with: a plain int when it is constant."""
    constant = poly.constant
    return Dim(rounded(poly)) if constant is None else constant


def ceil_div(a: int, b: int) -> int:
    # Written so that no negative number is divided: ONNX divides towards zero.
    return (a + (b - 1)) // b


def smaller(a, b):
    """min() that carries sizes."""
    return _pick("min", a, b)


def larger(a, b):
    """max() that carries sizes."""
    return _pick("max", a, b)


def _pick(kind, a, b):
    if isinstance(a, (floats.DimFloat, float)) or isinstance(b, (floats.DimFloat, float)):
        value = (min if kind == "min" else max)(*(float(plain(x)) for x in (a, b)))
        return floats.DimFloat(
            Atom(f"f{kind}", (floats.expression(a), floats.expression(b)), value)
        )
    return dim(binary(kind, Poly.of(a), Poly.of(b)))


class Dim(Scalar, int):
    """An int that came from a tensor's shape, and remembers how."""

    poly: Poly

    def __new__(cls, poly: Poly):
        self = int.__new__(cls, poly.hint)
        self.poly = poly
        return self

    @staticmethod
    def leaf(
        source, axis: int, hint: int, step: int = 1, low: float = 0, high: float = math.inf
    ) -> Dim:
        """The size of an axis, which is a multiple of `step`, from `low` to `high`."""
        atom = Atom("size", (source, axis), hint)
        atom.limits = (low, high)
        return Dim(Poly({(part(atom, step),): step}))

    @staticmethod
    def unsure(source, axis: int) -> Dim:
        """A size that is known when the call has run; 1, which divides, stands for it until then."""
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
        return floats.compute("fadd", self, other)

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
        return floats.compute("fadd", self, other, sign=-1)

    def __rsub__(self, other):
        if _plain_int(other):
            return dim(Poly.of(other) + self.poly * Poly.of(-1))
        return floats.compute("fadd", -self, other)

    def __mul__(self, other):
        if _plain_int(other):
            return dim(self.poly * Poly.of(other))
        if isinstance(other, list):
            from .lists import repeated  # which are of sizes

            return repeated(other, self)
        if isinstance(other, (tuple, str, bytes)):
            leaving("repeat", "a sequence was repeated by a size", asked(int, self))
            return other * int.__int__(self)
        return floats.compute("fmul", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        if _plain_int(other):
            return dim(binary("div", self.poly, Poly.of(other)))
        return floats.floor_division(self, other)

    def __rfloordiv__(self, other):
        if _plain_int(other):
            return dim(binary("div", Poly.of(other), self.poly))
        return floats.floor_division(other, self)

    def __mod__(self, other):
        if _plain_int(other):
            return dim(binary("mod", self.poly, Poly.of(other)))
        return floats.remainder(self, other)

    def __rmod__(self, other):
        if _plain_int(other):
            return dim(binary("mod", Poly.of(other), self.poly))
        return floats.remainder(other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __truediv__(self, other):
        return floats.compute("fdiv", self, other)

    def __rtruediv__(self, other):
        return floats.compute("fdiv", other, self)

    def __pow__(self, other, modulo=None):
        if modulo is None and _plain_int(other) and not isinstance(other, Dim) and other >= 0:
            result = Poly.of(1)
            for _ in range(other):
                result = result * self.poly
            return dim(result)
        return floats.compute("fpow", self, other)

    def __rpow__(self, other, modulo=None):
        if _plain_int(other):
            base = Poly.of(other)
            return dim(Poly.of(Atom("pow", (base, self.poly), base.hint**self.poly.hint)))
        return floats.compute("fpow", other, self)

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
        if _plain_int(other) and not is_dynamic(other) and other >= 0 and not other & (other + 1):
            return self % (other + 1)  # the lowest bits
        return self._bits("&", other, int.__and__)

    __rand__ = __and__

    def __or__(self, other):
        return self._bits("|", other, int.__or__)

    __ror__ = __or__

    def __xor__(self, other):
        return self._bits("^", other, int.__xor__)

    __rxor__ = __xor__

    def _bits(self, sign: str, other, function):
        if _plain_int(other):
            leaving("int", f"{self.poly} {sign} {other}", asked(function, self, other))
        return function(plain(self), plain(other))

    def bit_length(self):
        leaving("int", f"({self.poly}).bit_length()", asked(int.bit_length, self))
        return int.bit_length(self)

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

    # What leaves. A comparison whose outcome is the same at every size is not a branch.
    def _compare(self, other, sign: str, outcome: bool) -> bool:
        if _plain_int(other) and self.poly != Poly.of(other):
            if not settled(sign, self.poly, Poly.of(other)):
                told = f"{self.poly} {sign} {other.poly if isinstance(other, Dim) else other}"
                return decides(told, asked(SIGNS[sign], self, other), outcome)
        return outcome

    def _is_size(self) -> bool:
        terms = self.poly.terms
        return all(c > 0 and all(a.kind == "size" for a in m) for m, c in terms.items())

    def __eq__(self, other):
        outcome = int.__eq__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "==", outcome)

    def __ne__(self, other):
        outcome = int.__ne__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "!=", outcome)

    def __lt__(self, other):
        outcome = int.__lt__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "<", outcome)

    def __le__(self, other):
        outcome = int.__le__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, "<=", outcome)

    def __gt__(self, other):
        outcome = int.__gt__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, ">", outcome)

    def __ge__(self, other):
        outcome = int.__ge__(self, other)
        return outcome if outcome is NotImplemented else self._compare(other, ">=", outcome)

    def __hash__(self):
        # What is looked up is not told to be compared with: only keys of the same hash are.
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
        """What torch.sym_float asks: unlike float(), it may give what remembers."""
        return self * 1.0


def is_dynamic(x) -> bool:
    return type(x) in KINDS


def smallest_of(x) -> tuple[Poly, ...]:
    """The sizes of which it is the smallest: those of min(a, b)."""
    return _picked_from(x, "min")


def largest_of(x) -> tuple[Poly, ...]:
    """The sizes of which it is the largest: those of max(a, b)."""
    return _picked_from(x, "max")


def _picked_from(x, kind: str) -> tuple[Poly, ...]:
    atom = x.poly.atom if type(x) is Dim else None
    return atom.args if atom is not None and atom.kind == kind else ()


def spelled(x) -> Any:
    """How a size came about, for messages."""
    return x.poly if type(x) is Dim else x.expr if type(x) is floats.DimFloat else x


def found(x: Any, source: Any, axis: int, hint: int) -> Dim:
    """A size that was unsure, now that its number is known: that of the axis of a source.

    One that several results have in common goes on to be one size.
    """
    atom = x.poly.atom
    if atom is not None and atom.kind == "size":
        source, axis = atom.args
    return Dim.leaf(source, axis, hint)


def plain(x):
    """The recorded number, without reporting that it leaves: for hints and messages only."""
    kind = type(x)
    if kind is Dim:
        return x.poly.hint
    return x.expr.hint if kind in KINDS else x
