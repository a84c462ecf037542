"""The state of NumPy's random generator, put back where a model drew from it.

NumPy gives its state number by number, which takes longer than a small model runs. So it is read
again only if the bytes of the generator have changed. A draw changes them, but for the second of a
pair of normal numbers.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any


class NumpyGenerator:
    """The generator as it was when this was made; nothing before somebody imports numpy.random."""

    def __init__(self) -> None:
        self._random: Any = sys.modules.get("numpy.random")
        self._was: Any = None if self._random is None else self._random.get_state()
        self._bytes = self._now()

    def put_back(self) -> None:
        if self._was is None or (self._bytes is not None and self._now() == self._bytes):
            return
        if not _same(self._random.get_state(), self._was):
            self._random.set_state(self._was)

    def _now(self) -> bytes | None:
        """Return the bytes of a Mersenne Twister; None if they do not hold the whole state."""
        if type(self._was) is not tuple or self._was[3]:  # a normal number waits
            return None
        source = self._random.get_bit_generator()
        if type(source) is not self._random.MT19937:
            return None
        state = ctypes.c_uint32 * (624 + 1)  # numbers, and the place in them
        return bytes(state.from_address(source.ctypes.state_address))


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) is tuple and a[2:] == b[2:] and a[1].tobytes() == b[1].tobytes()
