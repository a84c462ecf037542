"""Caches of functions (`functools.lru_cache`, `cache`) that must not answer for sizes.

To a cache, a size is a plain number, and so is all that an earlier call computed from it: a shape,
a mask, a table of one length. In a recording a call with a size among its arguments bypasses the
cache.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ...ir.sizes import dims
from .. import stored_callables

_Cached = functools._lru_cache_wrapper


def places(
    function: Any, modules: Iterable[Any], attributes: Iterable[tuple]
) -> list[tuple[Any, str, Callable]]:
    """The caches that a model may use: owner, name, and the maker of what replaces each."""
    found = stored_callables.held(function, modules, attributes, _cached)
    return [(owner, name, _past) for owner, name, _ in found]


def _cached(x: Any) -> bool:
    function = x.__func__ if isinstance(x, (staticmethod, classmethod)) else x
    return isinstance(function, _Cached) and _takes_something(function.__wrapped__)


def _takes_something(function: Any) -> bool:
    """Return True if a function has parameters; most caches without only look for a package."""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    rest = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return bool(code.co_argcount or code.co_kwonlyargcount or code.co_flags & rest)


def _past(original: Any) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(_holds_size, args)) or any(map(_holds_size, kwargs.values())):
            return original.__wrapped__(*args, **kwargs)
        return original(*args, **kwargs)

    return call


def _holds_size(x: Any) -> bool:
    """Return True for a size, or a tuple with one in it: other containers cannot be a key."""
    return dims.is_dynamic(x) or (isinstance(x, tuple) and any(map(_holds_size, x)))
