"""Positions of iterators that a model keeps from call to call: `next(self.scales)` moves one on.

An iterator says by `__reduce__` how to make another one that goes on where it is. Such a copy is
remembered. An iterator that has moved on is set back; one that cannot be, as at its end, is replaced
by a copy in everything that holds it. Generators say nothing about themselves, and are left alone.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

# Others share the state of something else, as iter(function, end) does.
_MAKERS = frozenset(
    (iter, reversed, enumerate, zip, map, filter)
    + tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))
)
_NO_ITERATORS = frozenset((type(iter(int, 1)), type(_ for _ in ())))
Reduced = tuple[Callable[..., Any], Sequence[Any], Any]


class Holder(Protocol):
    """An owner of iterators, which is restored by the objects that it held."""

    def exchange(self, instead: dict[int, Any]) -> None: ...


def is_iterator(thing: Any) -> bool:
    """Return True for an iterator of Python's own, except generators."""
    kind = type(thing)
    own = kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")
    return own and kind not in _NO_ITERATORS


def exchanged(items: Any, instead: dict[int, Any]) -> Any:
    """Return a dict or a tuple with other objects for those with these ids."""
    if isinstance(items, dict):
        return {name: instead.get(id(x), x) for name, x in items.items()}
    return tuple(instead.get(id(x), x) for x in items)


class Positions:
    """The positions of some iterators, as they were; `holders` hold the iterators."""

    def __init__(self, iterators: Iterable[tuple[str, Any]], holders: Sequence[Holder]) -> None:
        known: dict[int, Any] = {}  # two iterators may go over a third one
        each = [(path, iterator, copied(iterator, known)) for path, iterator in iterators]
        self._each = [one for one in each if one[2] is not None]
        self._holders = holders

    def changed(self) -> list[str]:
        """The paths of the iterators that have moved on."""
        return [path for path, iterator, copy in self._each if _has_moved(iterator, copy)]

    def restore(self) -> None:
        """Set the iterators back; or put copies of them into their holders, before those are restored."""
        instead: dict[int, Any] = {}
        known: dict[int, Any] = {}
        for i, (path, iterator, copy) in enumerate(self._each):
            if _has_moved(iterator, copy) and not _set_back(iterator, copy):
                instead[id(iterator)] = again = copied(copy, known)
                self._each[i] = path, again, copy
        for holder in self._holders if instead else ():
            holder.exchange(instead)


def copied(iterator: Any, known: dict[int, Any]) -> Any:
    """Return an iterator that continues where another one is; None if it cannot be copied."""
    if id(iterator) in known:
        return known[id(iterator)]
    reduced = _reduced(iterator)
    if reduced is None:
        return None
    maker, given, state = reduced
    try:
        made = maker(*_detached(given, known))
        if state is not None:
            made.__setstate__(_detached(state, known))
    except (TypeError, ValueError, RuntimeError):  # it goes over one that has no copy
        return None
    known[id(iterator)] = made
    return made


def _reduced(iterator: Any) -> Reduced | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of itertools, from 3.12 on
            maker, given, *state = iterator.__reduce__()
    except (TypeError, RuntimeError):  # itertools from 3.14 on; a dict that has changed
        return None
    return (maker, given, state[0] if state else None) if maker in _MAKERS else None


def _detached(x: Any, known: dict[int, Any]) -> Any:
    """Return what an iterator is made of, with copies of iterators and of lists that it fills."""
    if type(x) is tuple:
        return tuple(
            [*each]
            if type(each) is list and x is not each and _is_filled(x)
            else _copy(each, known)
            for each in x
        )
    return _copy(x, known)


def _is_filled(state: tuple) -> bool:
    """Return True for the state of a cycle: what it has seen, and whether that is all."""
    return len(state) == 2 and type(state[0]) is list and type(state[1]) is bool


def _copy(x: Any, known: dict[int, Any]) -> Any:
    if not hasattr(type(x), "__next__"):
        return x
    found = copied(x, known) if is_iterator(x) else None
    if found is None:
        raise TypeError("it goes over an iterator that has no copy")
    return found


def _has_moved(iterator: Any, copy: Any) -> bool:
    """Return True if an iterator is not where its copy is.

    A fresh copy is compared: an exhausted iterator is described differently from an older copy.
    """
    return bool(_place(copied(iterator, {})) != _place(copy))


def _place(thing: Any) -> Any:
    """Return where an iterator is, to be compared with another place of the same one."""
    if is_iterator(thing):
        reduced = _reduced(thing)
        if reduced is None:
            return None
        maker, given, state = reduced
        if maker in (iter, reversed):
            return thing.__length_hint__()
        seen = tuple(len(x) if type(x) in (list, tuple) else _place(x) for x in given)
        return maker, seen, _place(state)
    if type(thing) is tuple:
        return tuple(map(_place, thing))
    if type(thing) is list:
        return len(thing)
    return thing if type(thing) in (int, float, bool, str) else id(thing)


def _set_back(iterator: Any, copy: Any) -> bool:
    """Move an iterator to where its copy is; return whether that was possible."""
    now, was = _reduced(iterator), _reduced(copy)
    if now is None or was is None:
        return False
    for x, y in zip(now[1], was[1]):
        if is_iterator(x) and is_iterator(y):
            _set_back(x, y)
    if was[2] is not None and hasattr(iterator, "__setstate__"):
        iterator.__setstate__(_detached(was[2], {}))
    return not _has_moved(iterator, copy)
