"""`functools.lru_cache` and `cache` answer with what they gave before, and a size is a number to them.

What an earlier call left there was made of plain numbers: a shape, a mask, a table of one length.
In a recording a call with a size among its arguments goes past the cache, and leaves nothing in it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..sizes import dims
from . import stored

_Cached = functools._lru_cache_wrapper


def places(recording: Any) -> list[tuple[Any, str, Callable]]:
    """What to hook: owner, name, maker of the stand-in."""
    if not recording.builder.sizes.named:
        return []
    return [(owner, name, _past) for owner, name in stored.places(recording, _cached)]


def _cached(x: Any) -> bool:
    function = x.__func__ if isinstance(x, (staticmethod, classmethod)) else x
    return isinstance(function, _Cached) and _takes_something(function.__wrapped__)


def _takes_something(function: Any) -> bool:
    """Most caches of large libraries answer questions without arguments: is that package there?"""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    rest = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return bool(code.co_argcount or code.co_kwonlyargcount or code.co_flags & rest)


def _past(original: Any) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(_sized, args)) or any(map(_sized, kwargs.values())):
            return original.__wrapped__(*args, **kwargs)
        return original(*args, **kwargs)

    return call


def _sized(x: Any) -> bool:
    """Whether it is a size, or a tuple (all else that nests cannot be a key) with one in it."""
    return dims.is_dynamic(x) or (isinstance(x, tuple) and any(map(_sized, x)))
