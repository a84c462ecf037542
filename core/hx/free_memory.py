"""Memory that this process has left, as far as the system says.

It decides nothing but whether to stop with an error: a file and a verdict never depend on it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import ExportError

UNLIMITED = sys.maxsize


@dataclass(frozen=True)
class FreeMemory:
    """Memory left to this process, in bytes."""

    memory: int  # that can be filled before the system runs out, or stops the process
    addresses: int  # that can be mapped, files included


def free_memory() -> FreeMemory:
    """Read the memory left from the limits of the process, its control group and the system."""
    used = _status()
    addresses = min(
        _limit("RLIMIT_AS", used.get("VmSize", 0)), _limit("RLIMIT_DATA", used.get("VmData", 0))
    )
    return FreeMemory(max(0, min(_available(), _group(), addresses)), max(0, addresses))


def require_memory(purpose: str, need: int, mapped: int = 0) -> None:
    """Raise if less than `need` is free, or if `need + mapped` exceeds the address space left."""
    left = free_memory()
    if left.memory < need:
        raise no_memory(purpose, need, left.memory)
    if left.addresses < need + mapped:
        raise no_memory(purpose, need + mapped, left.addresses)


def no_memory(purpose: str, need: int = 0, left: int = 0) -> ExportError:
    """Return the error for a shortage of memory."""
    return ExportError(
        f"there is not enough memory for {purpose}",
        why=f"it takes {gigabytes(need)}, and {gigabytes(left)} are left" if need else "",
        hint="export where there is more memory, or without the proof (verify=False)",
    )


def gigabytes(size: int) -> str:
    """Format bytes in GB, also absurdly many."""
    return f"{size / 1e9:.1f} GB" if size < 1e15 else f"{size / 1e9:.0e} GB"


def _limit(name: str, used: int) -> int:
    try:
        import resource
    except ImportError:  # Windows
        return UNLIMITED
    soft = resource.getrlimit(getattr(resource, name))[0]
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft - used


def _status() -> dict[str, int]:
    return _table(Path("/proc/self/status"))


def _available() -> int:
    found = _table(Path("/proc/meminfo")).get("MemAvailable")
    if found is not None:
        return found
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNLIMITED


def _group() -> int:
    """Return what the control group leaves, if there is one; its cached files can be dropped."""
    new, old = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
    pairs = [
        (new / "memory.max", new / "memory.current", new / "memory.stat", "file"),
        (
            old / "memory.limit_in_bytes",
            old / "memory.usage_in_bytes",
            old / "memory.stat",
            "total_cache",
        ),
    ]
    for most, now, stat, cache in pairs:
        try:
            cached = dict(line.split() for line in stat.read_text().splitlines())
            return int(most.read_text()) - int(now.read_text()) + int(cached.get(cache, 0))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return UNLIMITED


def _table(path: Path) -> dict[str, int]:
    """Read lines such as `VmSize:   735492 kB` as {"VmSize": 753143808}."""
    found = {}
    try:
        for line in path.read_text().splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) == 2 and words[1] == "kB":
                found[name] = int(words[0]) << 10
    except (OSError, ValueError):
        pass
    return found
