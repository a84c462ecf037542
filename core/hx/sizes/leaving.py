"""Who hears that a size leaves: becomes a plain number, or decides which way a model goes."""

from __future__ import annotations

import threading
from typing import Any

from .asked import Asked

_local = threading.local()


ROUND, TEXT = "round", "text"  # of what is told, what does not leave


def listen(callback) -> Any:
    """Sends this thread's leaving sizes to `callback(kind, detail, *asked)`; returns the one before."""
    before = getattr(_local, "leaving", None)
    _local.leaving = callback
    return before


def listening() -> Any:
    """Who hears of this thread's leaving sizes now."""
    return getattr(_local, "leaving", None)


def leaving(kind: str, detail: str, *asked: Asked) -> None:
    """A size becomes a plain number, or decides; `asked` is what followed from it, as far as known."""
    callback = getattr(_local, "leaving", None)
    if callback is not None:
        callback(kind, detail, *asked)


def decides(detail: str, asked: Asked, answer: bool) -> bool:
    """A size decides which way the model goes; what it hears, which may be another answer."""
    callback = getattr(_local, "leaving", None)
    heard = None if callback is None else callback("branch", detail, asked)
    return answer if heard is None else heard


def spelled() -> None:
    """A size is written in a text, which remembers nothing: a name, a message, or a number again."""
    callback = getattr(_local, "leaving", None)
    if callback is not None:
        callback(TEXT, "")


def begins() -> None:
    """Another round of a loop that is as long as a size begins."""
    callback = getattr(_local, "leaving", None)
    if callback is not None:
        callback(ROUND, "")
