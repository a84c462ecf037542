"""Room for the frames of many nested calls, taken once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The frame itself takes a quarter of a MB, and its piece thereby is half a MB: the rest is room
# for a thousand frames, as deep as Python lets them be. What nobody touches takes no memory.
_SLOTS = 32 * 1024


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function whose calls go deep, and up again, many thousand times.

    Python keeps frames in pieces of 16 KB. A call that is the first in a new piece has the system
    give that memory, and its return has it taken away again: where the calls of a model happen to
    lie at such an end, that is done for each of them, and costs more than what they do; all the
    more with a second thread, whose processor has to be told each time. A frame that is larger
    than a piece gets a larger one, of a power of two, and what is left of it serves all calls
    inside.
    """

    @functools.wraps(function)
    def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
        return _large(function, args, kwargs)

    return decorated


def _large(function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    return function(*args, **kwargs)


if sys.version_info >= (3, 11):  # before, each frame is memory of its own
    _large.__code__ = _large.__code__.replace(co_stacksize=_SLOTS)
