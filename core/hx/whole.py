"""Libraries that are imported when they are first needed: whole, however often Ctrl-C is pressed.

Some libraries cannot be imported again in a process where their import was cut short. So a signal
that comes meanwhile waits until it is done, which takes half a second.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from typing import Any


def imported(*names: str) -> None:
    """Imports what is not imported yet."""
    if any(name not in sys.modules for name in names):
        with _patient():
            for name in names:
                importlib.import_module(name)


class _patient:
    """Signals that Python handles are answered when the block is left."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._waiting: list[tuple[int, Any]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # signals are not answered there
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, lambda *about: self._waiting.append(about))

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number, frame in self._waiting[:1]:
            self._handlers[number](number, frame)
