"""Classes of other libraries that hold tensors: into their parts and back, as packs describe it.

A sparse tensor is one object to its library and several tensors to a graph. A pack's `Container`
says which. Arguments of that class reach converters as the same class holding values, and what a
converter returns is taken apart again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..contributions import Container
from ..errors import ConverterError
from ..registration import place
from ..words import a
from .guarded import guarded

_local = threading.local()


class using:
    """For the time of the block, this thread knows these classes."""

    def __init__(self, containers: Iterable[Container]) -> None:
        self._mine = {c.type: _guarded(c) for c in containers}
        self._before = getattr(_local, "known", None)

    def __enter__(self) -> None:
        _local.known, _local.found = self._mine, {}

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        _local.known, _local.found = self._before, {}


def _guarded(container: Container) -> Container:
    """The same, with what its functions raise told as the pack's."""

    def told(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
        what = f"the container of {container.type} ({container.pack}): {word} raised"

        def call(*args: Any) -> Any:
            with guarded(what):
                return function(*args)

        return call

    flatten, unflatten = told("flatten", container.flatten), told("unflatten", container.unflatten)

    def parted(x: Any) -> tuple[Mapping[str, Any], Any]:
        parts = flatten(x)
        if not (isinstance(parts, tuple) and len(parts) == 2 and isinstance(parts[0], Mapping)):
            raise ConverterError(
                f"the container of {container.type} ({container.pack}): flatten gave {a(parts)}",
                why="at {}:{}".format(*place(container.flatten)),
                hint="it gives a pair: a dict of the parts by name, and what unflatten needs besides",
            )
        return parts

    return replace(container, flatten=parted, unflatten=unflatten)


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
