"""Fast check that many resolved names still mean the same.

    names = NameCache({text: resolve(text), ...})
    names.holds()    # later: True where all of them would be resolved to the same again

Nearly all names are looked up in a module or a class, one step after the other, and share most of
their steps: each step is looked at once, and all of one module or class at a time. A name that is
not there yet is looked up as far as it goes. The few others are resolved again.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import TargetError
from . import targets
from .targets import Target

_MISSING: Any = object()


class NameCache:
    def __init__(self, found: Mapping[str, Target | None]) -> None:
        """`found` has what each name was resolved to; None where it names nothing."""
        self._others: list[tuple[str, Target | None]] = []
        steps: dict[int, tuple[Any, dict[str, Any]]] = {}  # owner, and what it has under its names
        for text, target in found.items():
            path = targets.path_of(text)
            if target is not None and path is not None:
                _follow(*path, steps)
            elif not _follow_as_far_as_it_goes(text, steps):
                self._others.append((text, target))
        self._owners = [_Owner(owner, had) for owner, had in steps.values()]

    def holds(self) -> bool:
        if not all(owner.holds() for owner in self._owners):
            return False
        return all(_means_still(text, target) for text, target in self._others)


def _follow(value: Any, names: list[str], steps: dict[int, tuple[Any, dict[str, Any]]]) -> None:
    for name in names:
        owner = vars(value) if type(value) is types.ModuleType else value
        _, had = steps.setdefault(id(owner), (owner, {}))
        if name not in had:
            is_space = type(owner) is dict
            had[name] = owner.get(name, _MISSING) if is_space else getattr(owner, name, _MISSING)
        value = had[name]


def _follow_as_far_as_it_goes(text: str, steps: dict[int, tuple[Any, dict[str, Any]]]) -> bool:
    """Note the steps to a name that is not there; False if these do not prove its absence."""
    value: Any = sys.modules
    names = text.split(".")
    for i, name in enumerate(names, 1):
        owner = vars(value) if type(value) is types.ModuleType else value
        if type(owner) is dict:
            if "__getattr__" in owner or "::" in text:
                return False  # it may be made when somebody asks for it
            _follow(sys.modules, [".".join(names[:i])], steps)  # the module that it may become
            value = owner.get(name, _MISSING)
        elif isinstance(owner, type):
            value = getattr(owner, name, _MISSING)
        else:
            return False
        if value is _MISSING:
            _follow(sys.modules, names[:i], steps)
            return True
    return False


class _Owner:
    """The names of one module or class, read by a single call of Python's own."""

    def __init__(self, owner: Any, had: dict[str, Any]) -> None:
        self._owner = owner
        self._had = tuple(thing for thing in had.values() if thing is not _MISSING)
        there = [name for name, thing in had.items() if thing is not _MISSING]
        self._absent = [name for name, thing in had.items() if thing is _MISSING]
        if len(there) == 1:
            there *= 2  # the getters give one thing bare, and several as a tuple
            self._had *= 2
        getter: Any = operator.itemgetter if type(owner) is dict else operator.attrgetter
        self._read: Callable[[Any], tuple] = getter(*there) if there else lambda _: ()

    def holds(self) -> bool:
        owner = self._owner
        try:
            now = self._read(owner)
        except (AttributeError, KeyError):  # one of them is gone
            return False
        if not all(map(operator.is_, now, self._had)):
            return False
        if type(owner) is dict:
            return owner.keys().isdisjoint(self._absent)
        return not any(hasattr(owner, name) for name in self._absent)


def _means_still(text: str, target: Target | None) -> bool:
    try:
        now = targets.resolve(text)
    except TargetError:
        return target is None
    return target is not None and _alike(now, target)


def _alike(a: Target, b: Target) -> bool:
    same = a == b and a.owner is b.owner and a.function is b.function
    return same and (a.kind != "callable" or a.raw is b.raw)
