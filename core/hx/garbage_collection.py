"""Fewer garbage collections during an export."""

from __future__ import annotations

import gc
import threading

from .cleanup import Reversible

_lock = threading.RLock()
_users: set[object] = set()
_before: list[tuple[int, int, int]] = []  # the thresholds before the first user
_SELDOM = (
    200_000  # new objects between two collections; Python's default of 700 is one or two nodes
)
_NEVER = 1 << 30


class fewer_collections(Reversible):
    """Collect garbage less often, and never in full, which visits every object of each library.

    The thresholds belong to all threads: the first export changes them, the last restores them.
    """

    def __init__(self) -> None:
        self._token = object()

    # Each on one line: an interrupt arrives between lines, and would leave the lock held.

    def _set_up(self) -> None:
        with _lock: self._start()  # noqa: E701  # see above  # fmt: skip

    def _undo(self) -> None:
        with _lock: self._put_back()  # noqa: E701  # see above  # fmt: skip

    def _start(self) -> None:
        _users.add(self._token)
        if not _before:
            _before.append(gc.get_threshold())
        first, second, _ = gc.get_threshold()
        gc.set_threshold(first and max(first, _SELDOM), second, _NEVER)  # 0 turns collection off

    def _put_back(self) -> None:
        _users.discard(self._token)
        if not _users and _before:
            if gc.get_threshold()[2] == _NEVER:
                gc.set_threshold(*_before[0])
            _before.clear()
