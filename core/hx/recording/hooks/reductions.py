"""`min`, `max` and `sum` of sizes, of lists that are as long as a size, and of numbers in rounds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, ValuesView
from typing import Any

import torch

from ...graph.op import Op
from ...ir import shapes
from ...ir.sizes import dims, size_lists
from ...torchworld.spelling import rounds
from ...torchworld.spelling.iterations import follow, length_of
from ..recording import Recording

Wrap = Callable[[Callable], Callable]


def any_size(items: Iterable[Any]) -> bool:
    return any(map(dims.is_dynamic, items))


def of_pick(recording: Recording, reduce: str, combine: Callable) -> Wrap:
    largest = combine is dims.larger

    def wrap(original):
        def picked(*args, **kwargs):
            found = None if kwargs else _of_many(recording, reduce, original, args)
            if found is not None:
                return found
            if len(args) == 1 and isinstance(args[0], (Iterator, ValuesView, list)):
                many = _rounds_of(recording, args[0])
                if type(args[0]) is not list:
                    args = ([*follow(args[0])],)  # gone through only once
                if many is not None:
                    rounds.tell_of(args[0], many)
            items: Any = args[0] if len(args) == 1 else args
            if not isinstance(items, (tuple, list)) or not items:
                return original(*args, **kwargs)
            if kwargs.keys() <= {"default"}:
                if (vector := shapes.listed(items)) is not None:
                    number = original([*map(dims.plain, items)])
                    op = Op(recording.builder)
                    return size_lists.number(getattr(op, reduce)(vector, [0], keepdims=0), number)
                if any_size(items) and all(isinstance(n, (int, float)) for n in items):
                    return functools.reduce(combine, items)
            if kwargs.keys() == {"key"} and any_size(items):
                return _by_key(items, kwargs["key"], largest)
            return original(*args, **kwargs)

        return picked

    return wrap


def _of_many(recording: Recording, reduce: str, original: Callable, args: tuple) -> Any:
    """Reduce a tensor of integers, or a list that is as long as a size; None for anything else."""
    if len(args) == 1 and not recording.running.busy and _lengths_in(args[0]):
        return args[0].amax() if reduce == "ReduceMax" else args[0].amin()
    return _of_whole(recording, reduce, original, args)


def _rounds_of(recording: Recording, items: Any) -> Any:
    """The number of rounds that give these numbers, as a size; None if it follows from none."""
    if isinstance(items, Iterator):
        return length_of(items)
    return recording.memory.lengths.rounds(items)


def _sized(items: Any) -> bool:
    """Return True for a list or a tuple with sizes in it."""
    return isinstance(items, (tuple, list)) and any_size(items)


def _by_key(items: Iterable[Any], key: Callable | None, largest: bool) -> Any:
    """Return the first of the largest, or of the smallest; a float would not ask a size."""
    key = key or (lambda each: each)
    found, *rest = items
    known = key(found)
    for each in rest:
        mine = key(each)
        one, other = (known, mine) if largest else (mine, known)  # is one smaller?
        if other > one if type(one) is float and dims.is_dynamic(other) else one < other:
            found, known = each, mine
    return found


def _lengths_in(x: Any) -> bool:
    """Return True for a 1-d tensor of integers, whose largest element PyTorch finds in one call;
    Python would compare its elements one by one. For floats, the two may answer differently (NaN).
    """
    if not isinstance(x, torch.Tensor) or x.dim() != 1 or not dims.plain(x.numel()):
        return False
    return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)


def of_sum(recording: Recording) -> Wrap:
    def wrap(original):
        def summed(*args, **kwargs):
            found = _of_whole(recording, "ReduceSum", original, args) if not kwargs else None
            many = _rounds_of(recording, args[0]) if len(args) == 1 and not kwargs else None
            if many is not None and found is None:
                args = ([*follow(args[0])],)
                rounds.tell_of(args[0], many)
            if found is None and args and _sized(args[0]) and type(args[0]) is not size_lists.Whole:
                found = kwargs.get("start", args[1] if len(args) > 1 else 0)
                for each in args[0]:  # a float would not ask the size that is added to it
                    found = each + found if type(found) is float else found + each
            return original(*args, **kwargs) if found is None else found

        return summed

    return wrap


def _of_whole(recording: Recording, reduce: str, original: Callable, args: tuple) -> Any:
    """Reduce a list that is as long as a size (`sum(range(n))`) to one number; None for anything else."""
    if len(args) != 1 or type(args[0]) is not size_lists.Whole or not list.__len__(args[0]):
        return None
    return args[0].reduced(Op(recording.builder), reduce, original)
