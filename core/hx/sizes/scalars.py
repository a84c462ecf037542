"""What numpy makes of sizes: `np.ceil(n / 2)` carries them, and what cannot is told."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any


class Scalar:
    """What numpy asks of a number, and what its own have beside Python's."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from . import dims

        numbers = [_number(x) for x in inputs]
        form = _FORMS.get(ufunc.__name__)
        if form is not None and method == "__call__" and not kwargs and None not in numbers:
            return form(*numbers)
        told = ", ".join(str(dims.spelled(x)) if dims.is_dynamic(x) else "..." for x in inputs)
        dims.leaving("numpy", f"numpy.{ufunc.__name__}({told})")
        return getattr(ufunc, method)(*map(dims.plain, inputs), **kwargs)

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
        dims.leaving("numpy", f"({dims.spelled(self)}).astype({kind})")
        return kind.type(dims.plain(self))


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
}


def _number(x: Any) -> Any:
    """A number as Python has it; None where it is an array, or something else."""
    if isinstance(x, Scalar):
        return x
    item = getattr(x, "item", None)  # numpy's own numbers
    found = item() if item is not None and getattr(x, "shape", None) == () else x
    return found if type(found) in (int, float) else None
