"""What numpy makes of sizes: `np.ceil(n / 2)` carries them, and what cannot is told."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from .leaving import leaving, spelled

KINDS: set[type] = set()  # of numbers that remember: looked up with every argument of every call


class Scalar:
    """What numpy asks of a number, and what its own have beside Python's."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        KINDS.add(cls)

    def __repr__(self) -> str:
        spelled()
        return super().__repr__()

    def __format__(self, form: str) -> str:
        spelled()
        return super().__format__(form)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from . import dims

        numbers = [_number(x) for x in inputs]
        form = _FORMS.get(ufunc.__name__)
        if form is not None and method == "__call__" and not kwargs and None not in numbers:
            return form(*numbers)
        if method == "__call__" and not kwargs:
            from ..tensors import arrays  # which know of recordings

            made = arrays.beside(ufunc, inputs)
            if made is not None:
                return made
        _leaves(ufunc.__name__, inputs)
        return getattr(ufunc, method)(*map(dims.plain, inputs), **kwargs)

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

        from . import dims

        kind = numpy.dtype(dtype)
        if kind.kind in "iu":
            return math.trunc(self)  # type: ignore[arg-type]  # Dim and DimFloat can
        if kind == numpy.float64:
            return self * 1.0  # type: ignore[operator]  # likewise
        told = f"({dims.spelled(self)}).astype({kind})"
        leaving("numpy", told, *dims.goes_on(self))
        return kind.type(dims.plain(self))


def _leaves(name: str, given: Iterable[Any]) -> None:
    """That numpy makes a number of sizes that is no size."""
    from . import dims

    each = [n for x in given for n in (x if isinstance(x, (list, tuple)) else (x,))]
    told = ", ".join(format(dims.spelled(x)) if dims.is_dynamic(x) else "..." for x in each)
    asked = [one for x in each if dims.is_dynamic(x) for one in dims.goes_on(x)]
    leaving("numpy", f"numpy.{name}({told})", *asked)


def _plain(x: Any) -> Any:
    """The same with plain numbers in it: numpy asks a size of any depth what it is to do."""
    from . import dims

    if isinstance(x, (list, tuple)):
        return [*map(_plain, x)] if isinstance(x, list) else tuple(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else dims.plain(x)


def _larger(a: Any, b: Any) -> Any:
    from . import dims

    return dims.larger(a, b)


def _smaller(a: Any, b: Any) -> Any:
    from . import dims

    return dims.smaller(a, b)


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
    "power": operator.pow,
    "maximum": _larger,
    "minimum": _smaller,
    # By name: those of a recording keep a size, and stand there while there is one.
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
    "hypot": lambda x, y: math.hypot(x, y),
    "deg2rad": lambda x: math.radians(x),
    "rad2deg": lambda x: math.degrees(x),
}


def _rounded(x: Any, decimals: Any = 0) -> Any:
    from . import dims

    return round(x) if dims.is_dynamic(x) and decimals == 0 else NotImplemented


def _clipped(x: Any, low: Any, high: Any) -> Any:
    numbers = [_number(each) for each in (x, low, high)]
    return NotImplemented if None in numbers else _smaller(_larger(*numbers[:2]), numbers[2])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "round": _rounded,
    "around": _rounded,
    "clip": _clipped,
}


def _number(x: Any) -> Any:
    """A number as Python has it; None where it is an array, or something else."""
    if isinstance(x, Scalar):
        return x
    item = getattr(x, "item", None)  # numpy's own numbers
    found = item() if item is not None and getattr(x, "shape", None) == () else x
    return found if type(found) in (int, float) else None
