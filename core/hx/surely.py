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


class Undone:
    """A context manager that is undone, whatever happens and whenever.

    `_set_up` registers each change before it makes it. `_undo` may be cut short, and run again: it
    finds out by looking what is left to do.
    """

    _open = False

    def __enter__(self) -> Any:
        if self._open:
            raise RuntimeError(f"this {type(self).__name__.strip('_')} is in use already")
        try:
            self._open = True
            return self._set_up()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self.close()
        except BaseException:
            self.close()  # finish what an interrupt cut short
            raise

    def close(self) -> None:
        """What is left to do, if an interrupt came before the first line of `__exit__`."""
        if self._open:
            self._undo()
            self._open = False

    def _set_up(self) -> Any:
        raise NotImplementedError

    def _undo(self) -> None:
        raise NotImplementedError


def within(make: Callable[[], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function to run inside of a new one of these each time."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
            return inside(make(), lambda _: function(*args, **kwargs))

        return decorated

    return decorate
