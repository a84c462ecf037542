"""Have the system send what was written to the disk already, without waiting for it.

Some file systems (ext4) do that for the whole of a file at the moment that it replaces another, so
that a machine that goes down then has one of the two. That takes about as long as writing it did;
begun while the model still runs, it takes the caller no time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

_WRITE = 2  # SYNC_FILE_RANGE_WRITE: begin with what waits, and do not wait for it
PIECE = 1 << 24  # bytes sent at once; a busy disk makes one wait for them


@functools.cache
def sender() -> Callable[[int, int, int], int] | None:
    """`send(file descriptor, start, bytes)`, where the system has such a thing."""
    if not sys.platform.startswith("linux"):
        return None
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is None:
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return lambda fd, start, size: found(fd, start, size, _WRITE)
