"""Time that has passed, for limits and for rows of results. It decides nothing in a file."""

from __future__ import annotations

import time


class Timer:
    """Starts as it is made; is over after `limit` seconds, if there is a limit."""

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.seconds > self.limit
