"""Classes of other libraries that hold tensors: split into parts and rebuilt, as packs describe it.

A sparse tensor is one object to its library and several tensors to a graph. A pack's `Container`
lists those. Arguments of that class reach converters as the same class holding values, and a
converter's results are split again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..cleanup import Reversible
from ..contributions import Container
from ..errors import ConverterError
from ..registration import place
from ..text import with_article
from .guarded import guarded

_local = threading.local()


class using(Reversible):
    """Make these classes known to this thread, for the time of the block."""

    def __init__(self, containers: Iterable[Container]) -> None:
        self._mine = {c.type: _guarded(c) for c in containers}
        self._before = getattr(_local, "known", None)

    def _set_up(self) -> None:
        _local.known, _local.found, _local.forgotten = self._mine, {}, ""

    def _undo(self) -> None:
        _local.known, _local.found = self._before, {}


def _guarded(container: Container) -> Container:
    """Wrap a container, so that errors of its functions are attributed to the pack."""

    def told(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
        what = f"the container of {container.type} ({container.pack}): {word} raised"

        def call(*args: Any) -> Any:
            with guarded(what):
                return function(*args)

        return call

    flatten, unflatten = told("flatten", container.flatten), told("unflatten", container.unflatten)
    name = f"the container of {container.type} ({container.pack})"

    def made(parts: Mapping[str, Any], rest: Any) -> Any:
        whole = unflatten(parts, rest)
        if of(whole) is None:
            raise ConverterError(
                f"{name}: unflatten gave {with_article(whole)}",
                why="at {}:{}".format(*place(container.unflatten)),
                hint=f"it gives a new {container.type} of the parts",
            )
        return whole

    def parted(x: Any) -> tuple[Mapping[str, Any], Any]:
        parts = flatten(x)
        if not (isinstance(parts, tuple) and len(parts) == 2 and isinstance(parts[0], Mapping)):
            raise ConverterError(
                f"{name}: flatten gave {with_article(parts)}",
                why="at {}:{}".format(*place(container.flatten)),
                hint="it gives a pair: a dict of the parts by name, and what unflatten needs besides",
            )
        if forgotten := _forgotten(x, *parts):
            at = "{}:{}".format(*place(container.flatten))
            _local.forgotten = f"{name} leaves out {', '.join(forgotten)}: flatten at {at}"
        return parts

    return replace(container, flatten=parted, unflatten=made)


def _forgotten(x: Any, parts: Mapping[str, Any], rest: Any) -> list[str]:
    """The attributes that are tensors, and are neither among the parts nor in the rest."""
    import torch

    left = list(rest.values()) if isinstance(rest, Mapping) else rest
    there = [*parts.values(), rest, *(left if isinstance(left, (list, tuple)) else ())]
    known = set(map(id, there))
    if id(x) in known:
        return []
    own = getattr(x, "__dict__", {}).items()
    return [name for name, t in own if isinstance(t, torch.Tensor) and id(t) not in known]


def forgotten() -> str:
    """Return a note on what a container left out of an object: it may do so, but that can be why
    the model fails later.
    """
    return getattr(_local, "forgotten", "")


def of(x: Any) -> Container | None:
    """The container that describes an object's class, or the nearest of its base classes."""
    known = getattr(_local, "known", None)
    if not known:
        return None
    kind = type(x)
    found = _local.found
    if kind not in found:
        names = (f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__)
        # A class is often known by a shorter name than that of the module that defines it.
        found[kind] = next((c for c in (_named(known, name) for name in names) if c), None)
    return found[kind]


def _named(known: dict[str, Container], name: str) -> Container | None:
    if name in known:
        return known[name]
    package, attribute = name.partition(".")[0], name.rpartition(".")[2]
    for text, container in known.items():
        if text.startswith(package + ".") and text.endswith("." + attribute):
            return container
    return None
