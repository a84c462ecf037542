"""What is in a container or in an object's slots, and putting the same back, by identity."""

from __future__ import annotations

import contextlib
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

import torch

CONTAINERS = (OrderedDict, dict, list, set, deque, tuple)
# What is nothing but itself, as most of what a module has: its sizes, flags and names.
SIMPLE = frozenset((int, float, str, bool, type(None), bytes, complex, torch.dtype, torch.device))
_PLAIN = frozenset(CONTAINERS)


def filled_slots(thing: Any) -> list[tuple[Any, Any]]:
    """The slots of an object that have something in them, each with that."""
    found = []
    for descriptor in _members(type(thing)):
        with contextlib.suppress(AttributeError):
            found.append((descriptor, descriptor.__get__(thing)))
    return found


def _members(cls: type) -> list[types.MemberDescriptorType]:
    found = _members_of.get(cls)
    if found is None:
        every = [d for c in cls.__mro__ if in_python(c) for d in vars(c).values()]
        found = [d for d in every if isinstance(d, types.MemberDescriptorType)]
        _members_of[cls] = found
    return found


_members_of: dict[type, list[types.MemberDescriptorType]] = {}


def in_python(cls: type) -> bool:
    """Whether a class statement made it: the slots of others may be for reading alone."""
    return bool(cls.__flags__ & 1 << 9)


def contents(value: Any) -> tuple:
    """What a container holds, past what its class makes of being asked."""
    kind = _kind(value)
    if issubclass(kind, dict):
        return (*kind.keys(value), *kind.values(value))
    return tuple(kind.__iter__(value))


def _kind(container: Any) -> Any:
    """The container of Python that it is, if only at heart."""
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
