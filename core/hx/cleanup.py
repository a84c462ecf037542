"""Context managers that are closed even if an interrupt arrives as their `__exit__` starts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_inside(manager: Any, body: Callable[[Any], T]) -> T:
    """Run `with manager as entered: return body(entered)`, and then `manager.close()`.

    Python checks for Ctrl-C when a function starts, so `with` alone may skip its `__exit__`.
    `close` undoes whatever is left then, usually nothing.
    """
    try:
        with manager as entered:
            return body(entered)
    finally:
        manager.close()


class Reversible:
    """Context manager whose changes are undone, whatever happens.

    `_set_up` registers each change before it makes it. `_undo` may be interrupted and run again: it
    checks what is left to do.
    """

    _open = False

    def __enter__(self) -> Any:
        if self._open:
            raise RuntimeError(f"this {type(self).__name__.strip('_')} is already in use")
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
            self.close()  # finish what an interrupt stopped
            raise

    def close(self) -> None:
        """Undo what is left, if an interrupt arrived before the first line of `__exit__`."""
        if self._open:
            self._undo()
            self._open = False

    def _set_up(self) -> Any:
        raise NotImplementedError

    def _undo(self) -> None:
        raise NotImplementedError


def runs_inside(make: Callable[[], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that each call runs inside a new context manager."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
            return run_inside(make(), lambda _: function(*args, **kwargs))

        return decorated

    return decorate
