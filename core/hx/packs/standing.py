"""Whether names still mean what they meant, asked at once for many.

    standing = Standing({text: resolve(text), ...})
    standing.holds()    # later: True where all of them would be resolved to the same again

Nearly all names are looked up in a module or a class, one step after the other, and share most of
their steps: each step is looked at once. The few others are resolved again.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from ..errors import TargetError
from . import targets
from .targets import Target

_MISSING: Any = object()


class Standing:
    def __init__(self, found: Mapping[str, Target | None]) -> None:
        """`found` has what each name was resolved to; None where it names nothing."""
        self._modules: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self._classes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._others: list[tuple[str, Target | None]] = []
        for text, target in found.items():
            path = targets.path_of(text)
            if target is None or path is None:
                self._others.append((text, target))
            else:
                self._follow(*path)

    def _follow(self, start: Any, names: list[str]) -> None:
        value = start
        for name in names:
            if type(value) in (dict, types.ModuleType):
                space = value if type(value) is dict else vars(value)
                step = self._modules.setdefault((id(space), name), (space, name, space.get(name)))
            else:
                made = (value, name, getattr(value, name, _MISSING))
                step = self._classes.setdefault((id(value), name), made)
            value = step[2]

    def holds(self) -> bool:
        for space, name, thing in self._modules.values():
            if space.get(name) is not thing:
                return False
        for owner, name, thing in self._classes.values():
            if getattr(owner, name, _MISSING) is not thing:
                return False
        return all(_means_still(text, target) for text, target in self._others)


def _means_still(text: str, target: Target | None) -> bool:
    try:
        now = targets.resolve(text)
    except TargetError:
        return target is None
    return target is not None and _alike(now, target)


def _alike(a: Target, b: Target) -> bool:
    same = a == b and a.owner is b.owner and a.function is b.function
    return same and (a.kind != "callable" or a.raw is b.raw)
