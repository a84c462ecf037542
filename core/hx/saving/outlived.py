"""What a path held before: the system takes it back while the caller already goes on.

To forget a file that was just written takes the system about as long as to write a third of it, and
a model is mostly exported to where it was exported before.
"""

from __future__ import annotations

import _thread
import contextlib
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

LARGE = 1 << 22  # bytes; a smaller file goes sooner than a thread starts


@contextlib.contextmanager
def outlived(path: Path) -> Iterator[None]:
    """Within, the file is replaced or removed: at once, for what is open keeps its bytes."""
    with contextlib.ExitStack() as stack:
        old = None if os.name == "nt" else _large(path)  # there, an open file cannot be replaced
        if old is not None:
            stack.callback(old.close)
        yield
        if old is not None:
            _thread.start_new_thread(old.close, ())  # not one of those that a caller may count
            stack.pop_all()


def _large(path: Path) -> FileIO | None:
    try:
        if path.lstat().st_size >= LARGE and path.is_file():
            return FileIO(path)
    except OSError:  # there is none, or it is not ours to read
        pass
    return None
