"""Ctrl-C and SIGTERM: hx cleans up and prints one line."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any, NoReturn


class Stopped(BaseException):
    """Raised at the running code by a signal; typer would handle a KeyboardInterrupt itself."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` at the first signal; a second one of its kind ends the process at once."""
    before: dict[int, Any] = {}

    def stop(number: int, frame: Any) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise Stopped(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # An ignored signal stays ignored: `nohup hx export ...`
        if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            with contextlib.suppress(ValueError):  # only the main thread receives signals
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
