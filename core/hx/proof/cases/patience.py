"""How long a model is waited for on inputs that nobody gave it: a loop may never end on them.

`while x.norm() > 1e-3` ends where the user runs it, and maybe never on zeros. Such a run is given up:
another thread raises `Endless` in the model's own code, as Ctrl-C would.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...recording.capture import Capture

LEAST, NEXT = 10.0, 1.0  # seconds; and after one run that did not end
TIMES = 30  # as long as the recording took


def patience(captured: Capture) -> AbstractContextManager:
    """Only a model that asks what is in its tensors may go on for ever."""
    if not captured.recording.escapes:
        return contextlib.nullcontext()
    # Where it was told to go on, it has gone round far more often than it does by itself.
    times = TIMES if captured.prepared.until is None else 1
    return Patience(max(NEXT if captured.endless else LEAST, times * captured.seconds))


class Endless(BaseException):
    """Not an Exception: those the model may catch."""


class Patience:
    """`with Patience(seconds):` raises Endless in this thread if what is in it takes longer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._over = self._raised = False

    def __enter__(self) -> Patience:
        self._timer = threading.Timer(self.seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def _end(self) -> None:
        with self._lock:
            if not self._over:
                self._raised = True
                raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
                raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(Endless))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._over = True
        self._timer.cancel()
        if self._raised and kind is not Endless:
            # It is on its way, and comes at the next line or the one after.
            try:
                time.sleep(0.05)
                time.sleep(0.05)
            except Endless:
                pass
