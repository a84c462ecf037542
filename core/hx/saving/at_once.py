"""Several stretches of bytes written in one call of the system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import FileIO

_several = getattr(os, "writev", None)


def whole(file: FileIO, pieces: Sequence[bytes | memoryview]) -> int:
    """Writes all of them to a file without a buffer; gives how many bytes these are."""
    size = sum(map(len, pieces))
    done = _several(file.fileno(), pieces) if _several is not None and pieces else 0
    if done < size:  # the system takes as many as it likes
        _rest(file, pieces, done)
    return size


def _rest(file: FileIO, pieces: Sequence[bytes | memoryview], done: int) -> None:
    for piece in pieces:
        left = memoryview(piece)[min(done, len(piece)) :]
        done -= len(piece) - len(left)
        while left:
            left = left[file.write(left) :]
