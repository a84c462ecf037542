"""`functools.lru_cache` and `cache` answer with what they gave before, and a size is a number to them.

What an earlier call left there was made of plain numbers: a shape, a mask, a table of one length.
In a recording a call with a size among its arguments goes past the cache, and leaves nothing in it.
"""

from __future__ import annotations

import functools
import sys
import types
from builtins import len  # its own: `world` hooks those of the model
from collections.abc import Callable, Iterator
from typing import Any

from . import dims

_Cached = functools._lru_cache_wrapper
_SKIPPED = {
    "torch",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "hx",
    "hx_converters",
    "rich",
    "ml_dtypes",
}
_SKIPPED |= sys.stdlib_module_names

Place = tuple[Any, str, Callable[[Callable], Callable]]
_seen: dict[str, tuple[int, list[tuple[Any, str]]]] = {}  # of a module: how long it was, and what


def places(recording: Any) -> list[Place]:
    """Where cached functions are stored: in modules, their classes, and on the model's modules."""
    if not recording.builder.sizes.named:
        return []
    found = [
        (owner, name)
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] not in _SKIPPED and isinstance(module, types.ModuleType)
        for owner, name in _in_module(key, module)
        if _cached(vars(owner).get(name))
    ]
    for _, module in recording.modules:
        found += [(module, name) for name, x in vars(module).items() if isinstance(x, _Cached)]
    return [(owner, name, _past) for owner, name in found]


def _in_module(key: str, module: types.ModuleType) -> list[tuple[Any, str]]:
    space = vars(module)
    length, found = _seen.get(key, (-1, []))
    if length != len(space):
        found = list(_search(module, space))
        _seen[key] = len(space), found
    return found


def _search(module: types.ModuleType, space: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    for name, thing in list(space.items()):
        if isinstance(thing, _Cached):
            yield module, name
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            yield from ((thing, n) for n, x in list(vars(thing).items()) if _cached(x))


def _cached(x: Any) -> bool:
    return isinstance(x.__func__ if isinstance(x, (staticmethod, classmethod)) else x, _Cached)


def _past(original: Any) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(_sized, args)) or any(map(_sized, kwargs.values())):
            return original.__wrapped__(*args, **kwargs)
        return original(*args, **kwargs)

    return call


def _sized(x: Any) -> bool:
    """Whether it is a size, or a tuple (all else that nests cannot be a key) with one in it."""
    return dims.is_dynamic(x) or (isinstance(x, tuple) and any(map(_sized, x)))
