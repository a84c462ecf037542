"""Locks of models: exports of one model take turns, as each changes and restores its flags.

Models that share no module are exported at the same time. A thread that is exporting a model may
export it, or a part of it, again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

# Entered as it is: a condition's own `__enter__` is Python, where an interrupt may come between
# taking the lock and saying so. For the same reason `with` and its body stand on one line.
_lock = threading.RLock()
_free = threading.Condition(_lock)
# Maps the token of each lock to the thread that holds it, and to the ids of the locked modules.
_taken: dict[object, tuple[int, frozenset[int]]] = {}


def take(token: object, modules: Iterable[Any]) -> None:
    """Wait until no other thread has one of the modules, and take them all."""
    with _lock: _take(token, frozenset(map(id, modules)))  # noqa: E701  # fmt: skip


def _take(token: object, wanted: frozenset[int]) -> None:
    me = threading.get_ident()
    _free.wait_for(
        lambda: all(who == me or held.isdisjoint(wanted) for who, held in _taken.values())
    )
    _taken[token] = me, wanted


def leave(token: object) -> None:
    """Release all that was taken under this token. May be called again."""
    with _lock: _leave(token)  # noqa: E701  # fmt: skip


def _leave(token: object) -> None:
    _taken.pop(token, None)
    _free.notify_all()
