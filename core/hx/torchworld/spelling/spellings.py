"""Functions that a respelled function calls where Python would make a plain number of a size."""

from __future__ import annotations

import ast
import builtins
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from ...ir.sizes import dims, size_lists, size_texts
from ...ir.sizes.departures import leaving, listening
from . import (
    asked_together,
    followed_functions,
    handed_sizes,
    lookups,
    rounds,
    select_rewriter,
    selections,
)


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


def filled(x: Any) -> Any:
    """Return `len(x) > 0` for a list whose length depends on the data; anything else as it is."""
    many = builtins.len(x) if type(x) is list and x else 0  # as the model has it
    found = type(many) is dims.Dim and not many.poly.named()  # sizes that are named have something
    return many > 0 if found else x


def zipped(fixed: tuple[int, ...], *several: Any, **named: Any) -> Any:
    """zip(*several), where those at some places have a fixed number of items.

    No more rows of a tensor are taken than these have, whatever its size is.
    """
    lengths = [
        len(several[i]) for i in fixed if isinstance(several[i], (list, tuple, torch.nn.Module))
    ]
    if not lengths or named:
        return zip(*several, **named)
    return zip(*(_rows(x, min(lengths)) for x in several))


def _rows(x: Any, many: int) -> Any:
    sized = isinstance(x, torch.Tensor) and x.dim() > 0 and dims.is_dynamic(x.shape[0])
    return x[:many] if sized else x


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
    if type(index) is not int and isinstance(container, (list, tuple)):
        index = followed_functions.number_of(index, "__index__")
    picks = type(index) is not int and isinstance(container, (list, tuple))
    listener = listening() if picks else None
    if listener is not None:
        found = listener.pick(container, index)
        if found is not None:
            return found
    _tell_index(container, index, "item {} of a {}")
    return container[index]


def _tell_index(container: Any, index: Any, told: str) -> None:
    """Report sizes in an index that compiled code reads."""
    if type(index) is slice:
        index = index.start, index.stop, index.step
    if type(index) is not tuple and not dims.is_dynamic(index):
        return
    if type(getattr(type(container), "__getitem__", None)) in (types.FunctionType, types.NoneType):
        return  # written in Python, or none
    if isinstance(container, (dict, torch.Tensor)):  # one looks it up, the other has a door
        return
    for n in index if type(index) is tuple else (index,):
        if dims.is_dynamic(n):
            text = told.format(dims.spelled(n), type(container).__name__)
            of_things = isinstance(container, (list, tuple, str, bytes, range))
            leaving("index", text, *((dims.asked(int, n),) if of_things else dims.goes_on(n)))


def place(container: Any, index: Any) -> Any:
    """index, in container[index] = something, and in del container[index]"""
    if type(index) is dims.Dim and dims.goes_on(index)[0].is_of_named_sizes():
        _tell_index(container, index, "item {} of a {} is set")
    return lookups.put(container, index)


def popped(table: Any, *args: Any, **kwargs: Any) -> Any:
    """table.pop(key, default)"""
    if not args or kwargs or not lookups.is_table(table, args[0]):
        return handed_sizes.passed(table.pop)(*args, **kwargs)
    return lookups.popped(table, *args)


def got_or_set(table: Any, *args: Any, **kwargs: Any) -> Any:
    """table.setdefault(key, default)"""
    if not args or kwargs or not lookups.is_table(table, args[0]):
        return handed_sizes.passed(table.setdefault)(*args, **kwargs)
    return table.setdefault(lookups.put(table, args[0]), *args[1:])


def stored(value: Any, container: Any) -> Any:
    """value, in container[index] = value"""
    handed_sizes.tell_stored(container, value)
    return value


def set_as(value: Any, owner: Any, name: str) -> Any:
    """value, in owner.name = value"""
    handed_sizes.tell_set(owner, name, value)
    return value


def set_attribute(owner: Any, name: Any, *value: Any) -> None:
    """setattr(owner, name, value), or delattr(owner, name)"""
    if type(name) is size_texts.SizeText:
        name = size_texts.lost(name, "names an attribute")
    elif value:
        handed_sizes.tell_set(owner, name, *value)
    (setattr if value else delattr)(owner, name, *value)


def identical(x: Any, y: Any) -> bool:
    """x is y"""
    if dims.Dim not in (type(x), type(y)) or not {type(x), type(y)} <= {int, dims.Dim}:
        return x is y
    return bool(x == y) and -5 <= dims.plain(x) <= 256  # Python has one of each of these


def different(x: Any, y: Any) -> bool:
    """x is not y"""
    return not identical(x, y)


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
    if type(container) is not size_texts.SizeText:
        _tell_index(container, (start, stop, step), "items up to {} of a {}")
    return container[slice(start, stop, step)]


def _left(function: Callable, reflected: Callable) -> Callable:
    """An operator that asks the size on the right, where a float stands on the left."""

    def applied(x: Any, y: Any) -> Any:
        if type(x) in (str, bytes) and function is operator.mod:
            return size_texts.by_percent(x, y)
        if type(y) is dims.Dim:
            if type(x) is float:
                return reflected(y, x)
            return function(x, y) if type(x) in _ASKS else handed_sizes.handed(function, x, y)
        if type(x) is dims.Dim and type(y) not in _ASKS:
            return handed_sizes.handed(function, x, y)
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


# Types whose operators ask the other number, if that is a size.
_ASKS = (torch.Tensor, torch.nn.Parameter, int, bool, float, list, tuple, str, bytes, dims.Dim,
         dims.DimFloat)  # fmt: skip


def _compared(function: Callable, reflected: Callable) -> Callable:
    """A comparison that asks the size on the right, where a float stands on the left."""

    def compared(x: Any, y: Any) -> Any:
        if type(x) is float and type(y) is dims.Dim:
            return reflected(y, x)
        pairs = type(x) is type(y) and type(x) in (list, tuple)
        return reflected(y, x) if pairs and float in map(type, x) else function(x, y)

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
    "whole": followed_functions.whole,
    "real": followed_functions.real,
    "kind": kind,
    "numbered": numbered,
    "count": count,
    "made": made,
    "listed": followed_functions.listed,
    "filled": filled,
    "backwards": backwards,
    "zipped": zipped,
    "at": at,
    "part": part,
    "inside": lookups.inside,
    "outside": lookups.outside,
    "got": lookups.got,
    "popped": popped,
    "got_or_set": got_or_set,
    "attribute": lookups.attribute,
    "has_attribute": lookups.has_attribute,
    "set_attribute": set_attribute,
    "written": lookups.written,
    "as_text": lookups.as_text,
    "as_repr": lookups.as_repr,
    "put_together": lookups.put_together,
    "formatted": lookups.formatted,
    "as_format": lookups.as_format,
    "as_hex": lookups.as_hex,
    "as_octal": lookups.as_octal,
    "as_binary": lookups.as_binary,
    "passed": handed_sizes.passed,
    "place": place,
    "stored": stored,
    "set_as": set_as,
    "identical": identical,
    "different": different,
    "rounds": rounds.Rounds,
    "counts": rounds.counts,
    "number": rounds.number,
    "collected": rounds.collected,
    "returned": followed_functions.returned,
    **asked_together.HELPERS,
    **selections.HELPERS,
    **select_rewriter.FUNCTIONS,
}
for _name, _function, _word in OPERATORS.values():
    HELPERS[_name] = _left(_function, getattr(dims.Dim, f"__r{_word}__"))
    # Each in place as well: x *= n.
    HELPERS[f"{_name}_there"] = _left(
        getattr(operator, f"i{_word}"), getattr(dims.Dim, f"__r{_word}__")
    )
for _name, _function, _reflected in SIGNS.values():
    HELPERS[_name] = _compared(_function, _reflected)
