"""A file that is on its way to the disk while it is written.

A plain write ends in the system's cache; waiting for the disk (fsync) afterwards takes as long
again. So a second thread asks for it all along, and once more at the end; `wait` is called when it
matters, and finds most of it done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

BUFFER = 1 << 20
STRETCH = 64 << 20
_datasync = getattr(os, "fdatasync", os.fsync)


class Flush:
    """Writes to a file, and sends it to the disk; errors of the disk come out of `wait`."""

    def __init__(self, path: Path) -> None:
        # Opened anew: a copy of another descriptor would keep the other's lock while we flush.
        self._fd = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future | None = None

    @contextlib.contextmanager
    def writing(self) -> Iterator[Any]:
        """Give a `write` function; what it wrote is in the file on leaving."""
        sent = 0
        try:
            with open(self._fd, "wb", buffering=BUFFER, closefd=False) as file:

                def write(data: Any) -> None:
                    nonlocal sent
                    file.write(data)
                    sent += len(data)
                    if sent >= STRETCH and (self._pending is None or self._pending.done()):
                        sent = 0
                        self._send(_datasync)

                yield write
            self._send(os.fsync)
        finally:
            self._pool.submit(os.close, self._fd)
            self._pool.shutdown(wait=False)

    def wait(self) -> None:
        if self._pending is not None:
            self._pending.result()

    def _send(self, sync: Any) -> None:
        before, self._pending = self._pending, None
        if before is not None and before.done():
            before.result()
        self._pending = self._pool.submit(sync, self._fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last; some network file systems have no such thing."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)
