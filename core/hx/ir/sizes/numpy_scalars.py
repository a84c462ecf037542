"""Numbers that remember a size, as NumPy sees them: `np.ceil(n / 2)` keeps the size.

A function of NumPy that cannot keep it is reported.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ...budget import BUDGET
from . import departures
from .comparisons import SIGNS, Asked, itself
from .departures import leaving

OTHER_CASE_FACTOR = 4  # times a size: the next one that may be another case
_KINDS: set[type] = set()  # the subclasses: looked up with every argument of every call


class Scalar:
    """Methods that NumPy calls on a number, and those that its own numbers have beside Python's."""

    __slots__ = ()
    _formula: Any  # the number in terms of sizes; its `hint` is the number in the recording

    def __init_subclass__(cls) -> None:
        _KINDS.add(cls)

    @staticmethod
    def _picked(kind: str, a: Any, b: Any) -> Any:
        """The smaller ("min") or the larger ("max") of two numbers."""
        raise NotImplementedError

    def __repr__(self) -> str:
        departures.spelled(self)
        return super().__repr__()

    def __format__(self, form: str) -> str:
        departures.spelled(self)
        return super().__format__(form)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        numbers = [_number(x) for x in inputs]
        form = _FORMS.get(ufunc.__name__)
        if form is not None and method == "__call__" and not kwargs and None not in numbers:
            return form(*numbers)
        if method == "__call__" and not kwargs:
            made = departures.made_array(ufunc, inputs)
            if made is not None:
                return made
        _leaves(ufunc.__name__, inputs)
        return getattr(ufunc, method)(*map(plain, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """`np.round(n / 2)`; the others see a plain number."""
        form = _FUNCTIONS.get(function.__name__)
        made = NotImplemented if form is None or kwargs else form(*args)
        if made is not NotImplemented:
            return made
        _leaves(function.__name__, (*args, *kwargs.values()))
        return function(*_plain(args), **_plain(kwargs))

    def item(self) -> Any:
        return self

    def astype(self, dtype: Any) -> Any:
        """`np.ceil(n / 2).astype(int)`; other kinds are numpy's own numbers."""
        import numpy

        kind = numpy.dtype(dtype)
        if kind.kind in "iu":
            return math.trunc(self)  # type: ignore[arg-type]  # Dim and DimFloat can
        if kind == numpy.float64:
            return self * 1.0  # type: ignore[operator]  # likewise
        told = f"({spelled(self)}).astype({kind})"
        leaving("numpy", told, *goes_on(self))
        return kind.type(plain(self))


def is_dynamic(x: Any) -> bool:
    """Return True if a number follows from sizes that may change."""
    return type(x) in _KINDS


def plain(x: Any) -> Any:
    """The recorded number, without reporting that it leaves: for hints and messages only."""
    return x._formula.hint if type(x) in _KINDS else x


def spelled(x: Any) -> Any:
    """The formula of a size, for messages."""
    return x._formula if type(x) in _KINDS else x


def asked(ask: Any, *of: Any) -> Asked:
    """Make the question `ask(*of)`, where sizes are among `of`."""
    return Asked(ask, tuple(map(spelled, of)))


def baked(numbers: Iterable[Any]) -> dict[Asked, None]:
    """Return questions for the numbers that follow from sizes and are about to become plain."""
    return {asked(itself, n): None for n in numbers if is_dynamic(n)}


def larger(a: Any, b: Any) -> Any:
    """max() that carries sizes."""
    return _picked("max", max, a, b)


def smaller(a: Any, b: Any) -> Any:
    """min() that carries sizes."""
    return _picked("min", min, a, b)


def _picked(kind: str, plainly: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    size = a if isinstance(a, Scalar) else b
    return size._picked(kind, a, b) if isinstance(size, Scalar) else plainly(a, b)


def goes_on(x: Any) -> tuple[Asked, ...]:
    """Return questions for a number that leaves hx's view here: for itself, and for a far larger one."""
    far = Asked(SIGNS[">="], (spelled(x), OTHER_CASE_FACTOR * plain(x) + 3), guessed=True)
    return Asked(int if isinstance(x, int) else float, (spelled(x),)), far


def _leaves(name: str, given: Iterable[Any]) -> None:
    """Report a plain number that NumPy makes of sizes."""
    each = [n for x in given for n in (x if isinstance(x, (list, tuple)) else (x,))]
    told = ", ".join(format(spelled(x)) if is_dynamic(x) else "..." for x in each)
    asked = [one for x in each if is_dynamic(x) for one in (*goes_on(x), *_among(x, given))]
    leaving("numpy", f"numpy.{name}({told})", *asked)


def _among(x: Any, given: Iterable[Any]) -> list[Asked]:
    """Questions about a number that is searched in a short array: is it one of its numbers?"""
    kinds = [(n, getattr(getattr(n, "dtype", None), "kind", "")) for n in given]
    short = [n for n, kind in kinds if kind in ("i", "u") and n.size <= BUDGET.objects.keys]
    return [Asked(SIGNS["=="], (spelled(x), n)) for array in short for n in array.ravel().tolist()]


def _plain(x: Any) -> Any:
    """Replace sizes by plain numbers at any depth, where NumPy would ask them to take part."""
    if isinstance(x, (list, tuple)):
        return [*map(_plain, x)] if isinstance(x, list) else tuple(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else plain(x)


_FORMS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "rint": round,
    "sqrt": lambda x: x**0.5,
    "square": lambda x: x * x,
    "absolute": abs,
    "negative": operator.neg,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "divmod": divmod,
    "power": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "gcd": lambda x, y: math.gcd(x, y),
    "lcm": lambda x, y: math.lcm(x, y),
    "maximum": larger,
    "minimum": smaller,
    # Looked up by name: a recording replaces them by functions that keep a size.
    "log": lambda x: math.log(x),
    "log2": lambda x: math.log2(x),
    "log10": lambda x: math.log10(x),
    "log1p": lambda x: math.log1p(x),
    "exp": lambda x: math.exp(x),
    "exp2": lambda x: 2.0 ** (x * 1.0),
    "expm1": lambda x: math.expm1(x),
    "sinh": lambda x: math.sinh(x),
    "cosh": lambda x: math.cosh(x),
    "sin": lambda x: math.sin(x),
    "cos": lambda x: math.cos(x),
    "tan": lambda x: math.tan(x),
    "tanh": lambda x: math.tanh(x),
    "arctan": lambda x: math.atan(x),
    "arctan2": lambda y, x: math.atan2(y, x),
    "cbrt": lambda x: math.cbrt(x),
    "hypot": lambda x, y: math.hypot(x, y),
    "deg2rad": lambda x: math.radians(x),
    "rad2deg": lambda x: math.degrees(x),
}


def _rounded(x: Any, decimals: Any = 0) -> Any:
    return round(x) if is_dynamic(x) and decimals == 0 else NotImplemented


def _clipped(x: Any, low: Any, high: Any) -> Any:
    numbers = [_number(each) for each in (x, low, high)]
    return NotImplemented if None in numbers else smaller(larger(*numbers[:2]), numbers[2])


def _place(numbers: Any, x: Any, more: tuple, after_equal: bool) -> Any:
    """The place of a size in a short rising list: how many of its numbers are below it."""
    import numpy

    listed = numpy.asarray(numbers).ravel().tolist() if not is_dynamic(numbers) else []
    if (
        more
        or not 0 < len(listed) <= BUDGET.objects.keys
        or not {*map(type, listed)} <= {int, float}
    ):
        return NotImplemented
    rises = all(map(math.isfinite, listed)) and listed == sorted(listed)
    if not rises or not is_dynamic(x) or not isinstance(x, int):
        return NotImplemented
    least = [math.ceil(n) if after_equal else math.floor(n) + 1 for n in listed]
    counts: list[Any] = [smaller(larger(x - n + 1, 0), 1) for n in least]
    return functools.reduce(operator.add, counts)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "searchsorted": lambda numbers, x, *more: _place(numbers, x, more, after_equal=False),
    "digitize": lambda x, numbers, *more: _place(numbers, x, more, after_equal=True),
    "round": _rounded,
    "around": _rounded,
    "clip": _clipped,
}


def _number(x: Any) -> Any:
    """The number as Python's; None for an array, or anything else."""
    if isinstance(x, Scalar):
        return x
    item = getattr(x, "item", None)  # numpy's own numbers
    found = item() if item is not None and getattr(x, "shape", None) == () else x
    return found if type(found) in (int, float) else None
