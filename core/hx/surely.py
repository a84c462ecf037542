"""Context managers that are closed even if an interrupt comes as their `__exit__` starts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def inside(manager: Any, body: Callable[[Any], T]) -> T:
    """`with manager as entered: return body(entered)`, and then `manager.close()`.

    Python looks for Ctrl-C as a function starts, so `with` alone may find its `__exit__` undone.
    `close` does what is left to do, which mostly is nothing.
    """
    try:
        with manager as entered:
            return body(entered)
    finally:
        manager.close()


def within(make: Callable[[], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function to run inside of a new one of these each time."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
            return inside(make(), lambda _: function(*args, **kwargs))

        return decorated

    return decorate
