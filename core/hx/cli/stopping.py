"""Ctrl-C, and a polite kill: what is being done is put in order, and one line says so."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any, NoReturn


class Stopped(BaseException):
    """Raised where the work is, by a signal. (To a KeyboardInterrupt typer would give the answer.)"""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """The first signal raises `Stopped`; one more of its kind ends the process at once."""
    before: dict[int, Any] = {}

    def stop(number: int, frame: Any) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise Stopped(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # One that is ignored stays so: `nohup hx export ...`
        if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            with contextlib.suppress(ValueError):  # only the main thread is told of signals
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
