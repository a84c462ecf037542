"""Lookups by a size, or by a text with a size in it, which Python does out of sight.

A dict and a set look for what has the same hash, and never ask about the other sizes that they
contain. Here, the size is compared with each of them, as `n == 4` does: a branch of the model.
"""

from __future__ import annotations

import collections
import operator
import sys
from collections.abc import Iterable
from typing import Any

import torch

from ...budget import BUDGET
from ...ir.sizes import departures, dims, size_texts
from ...ir.sizes.size_lists import Whole
from ...ir.sizes.size_texts import SizeText, has_size

_TABLES = (
    dict,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
    torch.nn.ModuleDict,
    torch.nn.ParameterDict,
)
_SETS = (set, frozenset)
_KEYS: tuple[type, ...] = (type({}.keys()), type(collections.OrderedDict().keys()))
_NONE = object()


def inside(item: Any, container: Any) -> bool:
    """item in container"""
    bounds = _bounds(container)
    if bounds is not None and bounds[2] > 0 and type(item) in (int, dims.Dim):
        first, last, step = bounds
        return bool(first <= item and item < last and (item - first) % step == 0)
    if type(item) is SizeText and type(container) is str:
        return size_texts.followed(operator.contains, container, item)
    if not has_size(item) and not has_sized_key(container):
        return item in container
    keys = _keys(container)
    return item in container if keys is None else _found(item, keys) is not _NONE


def has_sized_key(container: Any) -> bool:
    """Return True if one of a few keys has a size in it."""
    few = type(container) in (*_SETS, *_TABLES, *_KEYS) and len(container) <= BUDGET.objects.keys
    return few and any(map(has_size, container))


def _bounds(container: Any) -> tuple[Any, Any, Any] | None:
    """Return the start, stop and step of a range, also of one that goes to a size."""
    if type(container) is range:
        return container.start, container.stop, container.step
    return container.bounds if type(container) is Whole and container.same() else None


def outside(item: Any, container: Any) -> bool:
    """item not in container"""
    return not inside(item, container)


def is_table(container: Any, key: Any) -> bool:
    """Return True if a key is looked up among a few, and one of them has a size in it."""
    few = type(container) in _TABLES and len(container) <= BUDGET.objects.keys
    return few and (has_size(key) or has_sized_key(container))


def entry(table: Any, key: Any) -> Any:
    """table[key]"""
    found = _found(key, table.keys())
    if found is _NONE and not hasattr(table, "__missing__"):
        raise KeyError(key)
    return table[known(key if found is _NONE else found)]


def known(key: Any) -> Any:
    """A key that was compared with all keys of a container: its lookup decides nothing more."""
    held = size_texts.compared_parts(key)
    departures.compared(*(held or (key if isinstance(key, tuple) else (key,))))
    return key


def put(table: Any, key: Any) -> Any:
    """key, in table[key] = something, and in del table[key]"""
    if not is_table(table, key):
        return key
    found = _found(key, table.keys())
    return known(key if found is _NONE else found)


def got(table: Any, *args: Any, **kwargs: Any) -> Any:
    """table.get(key, default)"""
    if not args or kwargs or not is_table(table, args[0]):
        return table.get(*args, **kwargs)
    found = _found(args[0], table.keys())
    return table[known(found)] if found is not _NONE else args[1] if len(args) > 1 else None


def popped(table: Any, key: Any, *default: Any) -> Any:
    """table.pop(key, default)"""
    found = _found(key, table.keys())
    if found is _NONE and not default:
        raise KeyError(key)
    return default[0] if found is _NONE else table.pop(known(found))


def attribute(owner: Any, name: Any, *default: Any) -> Any:
    """getattr(owner, name, default)"""
    if type(name) is not SizeText:
        return getattr(owner, name, *default)
    found = _found(name, _names(owner))
    if found is _NONE and not default:
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    return default[0] if found is _NONE else getattr(owner, found)


def has_attribute(owner: Any, name: Any) -> bool:
    """hasattr(owner, name)"""
    if type(name) is not SizeText:
        return hasattr(owner, name)
    return _found(name, _names(owner)) is not _NONE


def _names(owner: Any) -> list[str]:
    found = dict.fromkeys(getattr(owner, "__dict__", ()))
    if isinstance(owner, torch.nn.Module):
        for of in (owner._parameters, owner._buffers, owner._modules):
            found |= dict.fromkeys(of)
    return [*found, *(name for name in dir(type(owner)) if name not in found)]


def _keys(container: Any) -> list[Any] | None:
    """The keys of a container that are compared with a size, in the same order each time."""
    kind, numpy = type(container), sys.modules.get("numpy")
    if kind is torch.Tensor and not container.dtype.is_floating_point:
        numbers = (
            container.tolist() if dims.plain(container.numel()) <= BUDGET.objects.keys else [None]
        )
        numbers = numbers if isinstance(numbers, list) else [numbers]
        return numbers if all(type(n) is int for n in numbers) else None
    if numpy is not None and kind is numpy.ndarray and container.dtype.kind in "iu":
        return container.ravel().tolist() if container.size <= BUDGET.objects.keys else None
    if kind in (list, tuple) and float in map(type, container):  # which would not ask a size
        return [*container]
    if kind in (bytes, bytearray):
        return [*container] if len(container) <= BUDGET.objects.keys else None
    if kind not in (*_SETS, *_TABLES, *_KEYS) or len(container) > BUDGET.objects.keys:
        return None
    return sorted(container, key=_shown) if kind in _SETS else [*container]


def _shown(key: Any) -> str:
    """The text of a key, which is the same in each run."""
    return "" if type(key).__repr__ is object.__repr__ else repr(key)


def _found(key: Any, keys: Iterable[Any]) -> Any:
    return next((each for each in keys if _same(key, each)), _NONE)


def _same(a: Any, b: Any) -> bool:
    """Compare what is no size first: then nothing is asked about keys that differ anyway."""
    if isinstance(a, tuple):
        if not isinstance(b, tuple) or len(a) != len(b):
            return False
        pairs = sorted(zip(a, b), key=lambda pair: has_size(pair[0]))
        return all(_same(*pair) for pair in pairs)
    if type(a) is dims.Dim:
        return isinstance(b, (int, float)) and a == b
    return bool(a == b) if type(b) is not dims.Dim else b == a


def written(*pieces: Any) -> str:
    """An f-string: texts, and the value, conversion and format of each place."""
    found: list[size_texts.Piece] = []
    for piece in pieces:
        found += [piece] if type(piece) is str else size_texts.pieces_of(*piece)
    return size_texts.text(found)


def as_text(*args: Any, **kwargs: Any) -> str:
    """str(x)"""
    if len(args) == 1 and not kwargs and has_size(args[0]):
        return size_texts.text(
            size_texts.pieces_of(args[0], 115 if type(args[0]) is not dims.Dim else -1)
        )
    return size_texts.written(str, *args, **kwargs)


def as_repr(x: Any) -> str:
    """repr(x)"""
    if not has_size(x):
        return size_texts.written(repr, x)
    return size_texts.text(size_texts.pieces_of(x, 114 if type(x) is not dims.Dim else -1))


def as_format(x: Any, form: str = "") -> str:
    """format(x, form)"""
    if type(form) is str and has_size(x):
        return size_texts.text(size_texts.pieces_of(x, form=form))
    return size_texts.written(format, x, form)


def as_hex(x: Any) -> str:
    """hex(x)"""
    return as_format(x, "#x") if type(x) is dims.Dim else hex(x)


def as_octal(x: Any) -> str:
    """oct(x)"""
    return as_format(x, "#o") if type(x) is dims.Dim else oct(x)


def as_binary(x: Any) -> str:
    """bin(x)"""
    return as_format(x, "#b") if type(x) is dims.Dim else bin(x)


def put_together(between: Any, *args: Any) -> Any:
    """between.join(texts)"""
    if type(between) is SizeText and len(args) == 1:
        return between.join([*args[0]])
    if type(between) is not str or len(args) != 1:
        return between.join(*args)
    texts = [*args[0]]
    if any(type(each) is SizeText for each in texts):
        return size_texts.joined(*texts, between=between)
    return between.join(texts)


def formatted(form: Any, *args: Any, **kwargs: Any) -> Any:
    """form.format(...)"""
    if form is str and args:
        form, *args = args  # type: ignore[assignment]
    if type(form) is str and (has_size(args) or has_size([*kwargs.values()])):
        return size_texts.formatted(form, args, kwargs)
    return size_texts.written(form.format, *args, **kwargs)
