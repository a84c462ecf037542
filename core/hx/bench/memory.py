"""Peak memory of a call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path


def peak(run: Callable[[], object]) -> int | None:
    """Run a call; return the process's peak memory above that before the call, in bytes.

    On Linux, the kernel's high-water mark is reset first. Elsewhere it cannot be: there, a call
    that stays below an earlier peak counts less. None if the system offers no count.
    """
    gc.collect()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).malloc_trim(0)  # returns freed memory, so that the call cannot reuse it
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        run()
        return max(0, _status("VmHWM") - before)
    try:
        import resource
    except ImportError:  # Windows
        run()
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - highest) * unit


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(name)
