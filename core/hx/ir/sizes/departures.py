"""Departures of sizes: one becomes a plain number, or decides which path the model takes.

The recording of a thread is their listener. It also makes the lists and arrays that remember a
size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .comparisons import Asked

_local = threading.local()

ROUND, TEXT = "round", "text"  # kinds of news about a size that does not leave


@dataclass(frozen=True, slots=True)
class Listener:
    """The recording of a thread, as sizes see it."""

    left: Callable[..., bool | None]  # (kind, detail, *asked): another answer for the model
    repeat: Callable[[list, Any], list]  # [c] * n
    pick: Callable[..., Any]  # (items, index): the item that a size picks; None if unknown
    nodes: Callable[[], int]  # how many there are so far
    questions: Callable[[], int]  # about values, so far
    fill: Callable[[Any, Any, Any], None]  # (container, length, rounds): rounds have filled it
    compute: Callable[..., Any]  # (ufunc, inputs): the result that NumPy gives; None if unknown
    selects: bool  # both sides of Ifs in loops are computed
    selectable: dict[tuple[str, int], bool]  # lines of such Ifs; True if they count or append


def listen(listener: Listener | None) -> None:
    """Send the events of this thread's sizes to a listener."""
    _local.listener, _local.iterators = listener, {}


def listening() -> Listener | None:
    """The listener of this thread."""
    return getattr(_local, "listener", None)


def count(answers: bool = True) -> int:
    """The number of departures that this thread has reported, with the answers among them or not."""
    return getattr(_local, "count", 0) - (0 if answers else getattr(_local, "answers", 0))


def leaving(kind: str, detail: str, *asked: Asked) -> None:
    """Report that a size becomes a plain number, or answers a question: `asked`, if known."""
    listener = listening()
    if listener is not None:
        _local.count = count() + (kind not in (ROUND, TEXT))
        listener.left(kind, detail, *asked)


def decides(detail: str, asked: Asked, answer: bool) -> bool:
    """Report that a size decides the model's path; returns the answer that the model gets."""
    listener = listening()
    _local.count = count() + 1
    _local.answers = getattr(_local, "answers", 0) + 1
    heard = None if listener is None else listener.left("branch", detail, asked)
    _local.asked = asked
    return answer if heard is None else heard


def answers() -> int:
    """The number of questions about sizes that this thread has answered."""
    return getattr(_local, "answers", 0)


def last_asked() -> Asked:
    """The last of these questions."""
    return _local.asked


def own_number(method: Callable[[Any], Any], x: Any) -> Any:
    """The number that a method of an object returns, such as `__len__`, as it returns it."""
    before = getattr(_local, "kept", False)
    _local.kept = True
    try:
        return method(x)
    finally:
        _local.kept = before


def returned(number: Any, name: str, *asked: Asked) -> None:
    """Report a size that a method returns to compiled code, which makes a plain number of it."""
    if not getattr(_local, "kept", False):
        leaving("read", f"{name}() returns {number}", *asked)


def compared(*keys: Any) -> None:
    """Note that these are about to be looked up, and were compared with what they may equal."""
    _local.compared = {id(key) for key in keys}


def looked_up(key: Any, kind: str, detail: str, *asked: Asked) -> None:
    """Report a lookup by a size, unless its comparisons with the keys were reported by `compared`."""
    known = getattr(_local, "compared", None)
    if known and id(key) in known:
        known.discard(id(key))
    else:
        leaving(kind, detail, *asked)


def nodes() -> int:
    """The number of nodes that the recording has so far."""
    listener = listening()
    return 0 if listener is None else listener.nodes()


def lasts(iterator: Any, rounds: Any) -> None:
    """Note how many items an iterator of compiled code gives."""
    if listening() is not None:
        _local.iterators[id(iterator)] = iterator, rounds


def rounds_of(iterator: Any) -> Any:
    """The number of its items that was noted; None for any other."""
    known = getattr(_local, "iterators", {}).get(id(iterator))
    return None if known is None else known[1]


def spelled(number: Any = None) -> None:
    """Report a size that is written in a text, which does not remember it: a name, a message."""
    leaving(TEXT, "")
    if number is not None:
        getattr(_local, "written", []).append(number)


def written(write: Callable, *args: Any, **named: Any) -> tuple[Any, list[Any]]:
    """Call a function that writes a text; also return the sizes in it, which it does not remember."""
    before = getattr(_local, "written", [])
    _local.written = found = list[Any]()
    try:
        return write(*args, **named), found
    finally:
        _local.written = before


def begins() -> None:
    """Report the start of another round of a loop that is as long as a size."""
    leaving(ROUND, "")


def repeated(items: list, times: Any, plain: int) -> list:
    """Make a list that a size repeats; outside of a recording, a plain one."""
    listener = listening()
    return items * plain if listener is None else listener.repeat(items, times)


def made_array(ufunc: Any, inputs: tuple) -> Any:
    """Make the array that a ufunc of NumPy returns for sizes, if the recording follows it."""
    listener = listening()
    return None if listener is None else listener.compute(ufunc, inputs)
