"""Items of a container or of an object's slots, remembered and restored by identity."""

from __future__ import annotations

import contextlib
import operator
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

import torch

CONTAINERS = (OrderedDict, dict, list, set, deque, tuple)
# Types without parts, as most attributes of a module: its sizes, flags and names.
SIMPLE = frozenset((int, float, str, bool, type(None), bytes, complex, torch.dtype, torch.device))
_PLAIN = frozenset(CONTAINERS)


def filled_slots(thing: Any) -> list[tuple[Any, Any]]:
    """The filled slots of an object, with their contents."""
    cls = type(thing)
    places = _slots.get(cls)
    if places is None:
        places = _slots[cls] = _slots_of(cls)
    found = []
    for base, name in places:
        descriptor = vars(cls.__mro__[base])[name]
        with contextlib.suppress(AttributeError):
            found.append((descriptor, descriptor.__get__(thing)))
    return found


def _slots_of(cls: type) -> tuple[tuple[int, str], ...]:
    return tuple(
        (i, name)
        for i, base in enumerate(cls.__mro__)
        if in_python(base)
        for name, d in vars(base).items()
        if isinstance(d, types.MemberDescriptorType)
    )


# For each class: the base that has them, and their names. A descriptor would keep it alive.
_slots: weakref.WeakKeyDictionary[type, tuple[tuple[int, str], ...]] = weakref.WeakKeyDictionary()


def in_python(cls: type) -> bool:
    """Return True if a class statement made the class: the slots of others may be read-only."""
    return bool(cls.__flags__ & 1 << 9)


def contents(value: Any) -> tuple:
    """The items of a container, without asking its class."""
    kind = _kind(value)
    if issubclass(kind, dict):
        return (*kind.keys(value), *kind.values(value))
    return tuple(kind.__iter__(value))


def _kind(container: Any) -> Any:
    """The builtin container type that it is, or derives from."""
    own = type(container)
    return own if own in _PLAIN else next(k for k in CONTAINERS if isinstance(container, k))


def identical(a: Iterable, b: Iterable) -> bool:
    return all(map(operator.is_, a, b))


def restore_dict(state: dict, was: dict) -> None:
    if len(state) == len(was) and list(state) == list(was):
        if not identical(state.values(), was.values()):
            dict.update(state, was)
        return
    # Values first, so that another thread never finds it empty, unless the order changed.
    dict.update(state, was)
    for key in [k for k in state if k not in was]:
        dict.pop(state, key)
    if list(state) != list(was):
        dict.clear(state)
        dict.update(state, was)


def restore_container(value: Any, was: tuple) -> None:
    now = contents(value)
    if len(now) == len(was) and identical(now, was):
        return
    kind = _kind(value)
    if issubclass(kind, dict):
        half = len(was) // 2
        kind.clear(value)
        for key, item in zip(was[:half], was[half:]):
            kind.__setitem__(value, key, item)
    elif kind is list:
        list.__setitem__(value, slice(None), was)
    else:
        kind.clear(value)
        (set.update if kind is set else deque.extend)(value, was)
