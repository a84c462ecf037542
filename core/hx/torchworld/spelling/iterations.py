"""Iterations that last as long as a size says: `for row in x`, `zip(x, range(n))`."""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ...ir.sizes import departures, dims, size_lists

_VIEWS = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
_WITH_LENGTH = (list, tuple, dict, set, collections.deque, size_lists.Whole, *_VIEWS)
_OF_SEQUENCE = tuple(map(type, (iter([]), iter(()), reversed([]), reversed(()))))
_OF_ONE = (enumerate, map, filter)
_COMBINED: dict[Any, Callable] = {  # the number of rounds of each, from those of its arguments
    itertools.product: lambda a, b: b * a if dims.is_dynamic(b) else a * b,
    itertools.chain: lambda a, b: b + a if dims.is_dynamic(b) else a + b,
    itertools.zip_longest: dims.larger,
    itertools.accumulate: lambda a, b: a,
}
_ENDLESS = (itertools.count, itertools.cycle, itertools.repeat)


def length_of(x: Any) -> dims.Dim | None:
    """The number of rounds of `for _ in x`, where it follows from a size; None where it does not.

    For a generator and for `filter`, it is how many rounds they go, which may yield fewer items.
    """
    kind = type(x)
    if kind is size_lists.Turns:
        found = x.left()
    elif kind in _WITH_LENGTH or (isinstance(x, torch.Tensor) and x.dim()):
        found = builtins.len(x)  # as the model has it
    elif kind is types.GeneratorType:
        found = length_of(_source(x))
    elif kind in _OF_SEQUENCE:
        found = _rest_of(x)
    elif kind is zip:
        found = _shortest(x.__reduce__()[1])
    elif kind is map:
        found = _shortest(x.__reduce__()[1][1:])
    elif kind in _OF_ONE:
        found = length_of(x.__reduce__()[1][kind is filter])
    else:
        found = departures.rounds_of(x)
    return found if type(found) is dims.Dim else None


def yields_each(x: Any) -> bool:
    """Return True if each round of an iteration surely yields an item: a generator may leave some out."""
    kind = type(x)
    if kind in (types.GeneratorType, filter):
        return False
    return all(map(yields_each, x.__reduce__()[1])) if kind in (zip, map, enumerate) else True


def follow(iterator: Any) -> Any:
    """Return an iterator whose rounds are counted by what takes its items, as a size."""
    kind = type(iterator)
    if kind is size_lists.Turns:
        iterator.known = True
    elif kind is types.GeneratorType:
        follow(_source(iterator))
    elif kind is zip or kind in _OF_ONE:
        for inner in iterator.__reduce__()[1]:
            follow(inner)
    return iterator


def combined(function: Any, several: Sequence[Any]) -> Any:
    """The number of rounds of product(range(n), range(m)), and of its like; None if it is not known."""
    combine = _COMBINED.get(function) if isinstance(function, type) else None
    if combine is None or not all(map(yields_each, several)):
        return None
    known = [length_of(each) for each in several]
    if not any(map(dims.is_dynamic, known)):
        return None
    hints = (operator.length_hint(each, -1) for each in several)
    lengths = [hint if many is None else many for many, hint in zip(known, hints)]
    return None if -1 in [*map(dims.plain, lengths)] else functools.reduce(combine, lengths)


def _source(generator: types.GeneratorType) -> Any:
    """The iterator that a generator expression goes over."""
    frame = generator.gi_frame
    return None if frame is None else frame.f_locals.get(".0")


def _rest_of(iterator: Any) -> Any:
    """The number of items that an iterator over a list or a tuple has left."""
    how, (items, *_), *place = iterator.__reduce__()
    many = length_of(items)
    if many is None or not place:
        return many
    return many - place[0] if how is iter else None if place[0] + 1 < dims.plain(many) else many


def _shortest(several: Iterable[Any]) -> Any:
    """The number of items of the shortest; None if nobody knows which one that is."""
    lengths: list[Any] = []
    for each in several:
        if isinstance(each, _ENDLESS):
            continue
        many = length_of(each)
        lengths.append(operator.length_hint(each, -1) if many is None else many)
    if -1 in [*map(dims.plain, lengths)] or not any(map(dims.is_dynamic, lengths)):
        return None
    return functools.reduce(dims.smaller, lengths)
