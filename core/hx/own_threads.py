"""Threads that hx starts itself: they touch neither the model nor PyTorch's global state."""

from __future__ import annotations

import threading


class OwnThread(threading.Thread):
    """Thread of hx, which ends before the call of hx that started it."""


def foreign_threads() -> bool:
    """Return True if other threads than this one run that are not hx's own."""
    here = threading.current_thread()
    return any(
        each is not here and not isinstance(each, OwnThread) for each in threading.enumerate()
    )
