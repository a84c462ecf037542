"""Memory for the frames of many nested calls, allocated once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The frame itself takes 256 KB, so Python allocates a chunk of 512 KB for it: the rest holds a thousand
# frames, as many as Python allows. Pages that nobody touches take no memory.
_SLOTS = 32 * 1024


def with_large_frame(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that makes many thousand nested calls.

    Python keeps frames in chunks of 16 KB. The first call in a new chunk allocates it, and its
    return frees it: if the calls of a model happen to lie at such a boundary, each of them pays for
    that, which costs more than the calls, and more still with a second thread. A frame larger than
    a chunk gets a larger one, a power of two, and the rest of that chunk serves all calls inside.
    """

    @functools.wraps(function)
    def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
        return _large(function, args, kwargs)

    return decorated


def _large(function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    return function(*args, **kwargs)


if sys.version_info >= (3, 11):  # earlier, each frame is allocated by itself
    _large.__code__ = _large.__code__.replace(co_stacksize=_SLOTS)
