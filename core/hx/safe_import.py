"""Imports that neither Ctrl-C nor the garbage collection interrupts.

Some libraries cannot be imported again in a process where their import was interrupted. So a signal
waits until the import is done, which takes half a second. An import makes many objects that all
stay: looking for garbage among them, and among those of PyTorch, takes as long as a third of it.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from typing import Any

from .garbage_collection import fewer_collections


def safe_import(*names: str) -> None:
    """Import the modules that are not imported yet."""
    if any(name not in sys.modules for name in names):
        with _SignalsHeld(), fewer_collections():
            for name in names:
                importlib.import_module(name)


class _SignalsHeld:
    """Hold back signals that Python handles until the block is left."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._waiting: list[tuple[int, Any]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # other threads handle no signals
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, lambda *details: self._waiting.append(details))

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number, frame in self._waiting[:1]:
            self._handlers[number](number, frame)
