"""Functions that a respelled function calls where Python would make a plain number of a size."""

from __future__ import annotations

import array
import ast
import builtins
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..ir.sizes import dims, size_lists, size_texts
from ..ir.sizes.departures import leaving, listening
from . import handed_sizes, lookups


def whole(x: Any, *more: Any) -> Any:
    """int(x)"""
    x = x if more else _number(x)
    if type(x) is size_texts.SizeText:
        return size_texts.followed(int, x, *more)
    if more or not dims.is_dynamic(x):
        return int(x, *more)
    return dims.DimFloat.whole(x, "trunc") if type(x) is dims.DimFloat else x


def real(x: Any) -> Any:
    """float(x)"""
    if type(x) is size_texts.SizeText:
        return size_texts.followed(float, x)
    x = _number(x)
    return x * 1.0 if type(x) is dims.Dim else x if type(x) is dims.DimFloat else float(x)


def _number(x: Any) -> Any:
    """The number in a tensor of one element, asked for by a name that the doors know."""
    one = isinstance(x, torch.Tensor) and x.numel() == 1 and not x.dtype.is_complex
    return x.item() if one else x


def numbered(maker: Any, x: Any) -> Any:
    """np.int64(x) or np.float64(x)"""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(x) is dims.Dim and maker in (numpy.int64, numpy.float64):
        return x if maker is numpy.int64 else x * 1.0
    return maker(x)


def kind(x: Any) -> type:
    """type(x), by which libraries look numbers up: that of a size is int"""
    plain = {dims.Dim: int, dims.DimFloat: float, size_lists.Whole: list}
    return plain.get(type(x), type(x))


def listed(x: Any) -> list:
    """list(x)"""
    return x.copy() if type(x) is size_lists.Whole else [*x]


def filled(x: Any) -> Any:
    """Return `len(x) > 0` for a list whose length depends on the data; anything else as it is."""
    many = builtins.len(x) if type(x) is list and x else 0  # as the model has it
    found = type(many) is dims.Dim and not many.poly.named()  # sizes that are named have something
    return many > 0 if found else x


def backwards(x: Any) -> list:
    """list(reversed(x))"""
    return x.flipped() if type(x) is size_lists.Whole else [*reversed(x)]


def count(x: Any) -> Any:
    """x.numel(), which a shape has as well"""
    if isinstance(x, torch.Size) and any(map(dims.is_dynamic, x)):
        total = 1
        for n in x:
            total = n * total
        return total
    return x.numel()


KINDS: dict[str, torch.dtype | None] = {
    "Tensor": None,
    "HalfTensor": torch.float16,
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "ByteTensor": torch.uint8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_MAKERS: dict[Any, torch.dtype | None] = {getattr(torch, n): kind for n, kind in KINDS.items()}


def made(maker: Any, *given: Any) -> Any:
    """torch.Tensor([n, 1]) or torch.LongTensor(2, n), which no door sees, by names of today"""
    if isinstance(maker, type) and maker in _MAKERS:
        kind = _MAKERS[maker] or torch.get_default_dtype()
        sizes = given[0] if isinstance(given[0], torch.Size) else given
        if any(map(dims.is_dynamic, sizes)):
            return torch.empty(sizes, dtype=kind)
        if _has_size(given[0]):
            return torch.tensor(given[0], dtype=kind)
    return maker(*given)


def _has_size(numbers: Any) -> bool:
    if type(numbers) is size_lists.Whole:
        return True
    if isinstance(numbers, (list, tuple)):
        return any(map(_has_size, numbers))
    return dims.is_dynamic(numbers)


def at(container: Any, index: Any) -> Any:
    """container[index]"""
    if lookups.is_table(container, index):
        return lookups.entry(container, index)
    if type(container) is size_texts.SizeText:
        return container[index]
    picks = type(index) is not int and isinstance(container, (list, tuple))
    listener = listening() if picks else None
    if listener is not None:
        found = listener.pick(container, index)
        if found is not None:
            return found
    if type(index) is dims.Dim and isinstance(container, (list, tuple, str, bytes, range)):
        told = f"item {index.poly} of a {type(container).__name__}"
        leaving("index", told, dims.asked(int, index))
    elif type(container).__module__ == "numpy" and type(container).__name__ == "ndarray":
        for n in index if type(index) is tuple else (index,):
            if dims.is_dynamic(n):
                leaving("index", f"item {n.poly} of an array", dims.asked(int, n))
    return container[index]


def place(container: Any, index: Any) -> Any:
    """index, in container[index] = something"""
    if type(index) is dims.Dim and isinstance(container, (list, bytearray, array.array)):
        asked = dims.goes_on(index)
        if asked[0].is_of_named_sizes():
            told = f"item {index.poly} of a {type(container).__name__} is set"
            leaving("index", told, *asked)
    return index


def part(container: Any, start: Any, stop: Any, step: Any) -> Any:
    """container[start:stop:step]"""
    if (
        type(container) is size_lists.Whole
        and step is None
        and dims.Dim in (type(start), type(stop))
    ):
        found = container.part(start, stop)
        if found is not None:
            return found
    if type(container) is size_texts.SizeText:
        return container[slice(start, stop, step)]
    if isinstance(container, (list, tuple, str, bytes, range)):
        for n in (start, stop, step):
            if type(n) is dims.Dim:
                told = f"items up to {n.poly} of a {type(container).__name__}"
                leaving("index", told, dims.asked(int, n))
    return container[slice(start, stop, step)]


def _left(function: Callable, reflected: Callable) -> Callable:
    """An operator that asks the size on the right, where a float stands on the left."""

    def applied(x: Any, y: Any) -> Any:
        if type(x) in (str, bytes) and function is operator.mod:
            return size_texts.by_percent(x, y)
        if type(x) is float and type(y) is dims.Dim:
            return reflected(y, x)
        return function(x, y)

    return applied


OPERATORS: dict[type, tuple[str, Callable, str]] = {
    ast.Add: ("added", operator.add, "add"),
    ast.Sub: ("subtracted", operator.sub, "sub"),
    ast.Mult: ("multiplied", operator.mul, "mul"),
    ast.Div: ("divided", operator.truediv, "truediv"),
    ast.FloorDiv: ("floored", operator.floordiv, "floordiv"),
    ast.Mod: ("left_over", operator.mod, "mod"),
    ast.Pow: ("raised", operator.pow, "pow"),
}


def _compared(function: Callable, reflected: Callable) -> Callable:
    """A comparison that asks the size on the right, where a float stands on the left."""

    def compared(x: Any, y: Any) -> Any:
        return reflected(y, x) if type(x) is float and type(y) is dims.Dim else function(x, y)

    return compared


SIGNS: dict[type, tuple[str, Callable, Callable]] = {
    ast.Lt: ("less", operator.lt, operator.gt),
    ast.LtE: ("less_or_equal", operator.le, operator.ge),
    ast.Gt: ("more", operator.gt, operator.lt),
    ast.GtE: ("more_or_equal", operator.ge, operator.le),
    ast.Eq: ("same", operator.eq, operator.eq),
    ast.NotEq: ("other", operator.ne, operator.ne),
}
HELPERS: dict[str, Callable] = {
    "whole": whole,
    "real": real,
    "kind": kind,
    "numbered": numbered,
    "count": count,
    "made": made,
    "listed": listed,
    "filled": filled,
    "backwards": backwards,
    "at": at,
    "part": part,
    "inside": lookups.inside,
    "outside": lookups.outside,
    "got": lookups.got,
    "attribute": lookups.attribute,
    "has_attribute": lookups.has_attribute,
    "written": lookups.written,
    "as_text": lookups.as_text,
    "as_repr": lookups.as_repr,
    "put_together": lookups.put_together,
    "formatted": lookups.formatted,
    "as_format": lookups.as_format,
    "as_hex": lookups.as_hex,
    "as_octal": lookups.as_octal,
    "as_binary": lookups.as_binary,
    "handed": handed_sizes.handed,
    "place": place,
}
for _name, _function, _word in OPERATORS.values():
    HELPERS[_name] = _left(_function, getattr(dims.Dim, f"__r{_word}__"))
    # Each in place as well: x *= n.
    HELPERS[f"{_name}_there"] = _left(
        getattr(operator, f"i{_word}"), getattr(dims.Dim, f"__r{_word}__")
    )
for _name, _function, _reflected in SIGNS.values():
    HELPERS[_name] = _compared(_function, _reflected)
