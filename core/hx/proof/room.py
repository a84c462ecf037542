"""Whether a file can be run in the memory that this process has left, as far as the system says.

onnxruntime maps the weights of a data file, and copies those that it rewrites when it optimises a
graph: all of them, at worst. Without optimisations it needs them one at a time, and the system
can let go of what is mapped. Files whose weights are few are run without asking.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PLENTY = 1 << 62
FEW = 1 << 30  # bytes of weights
SLACK = 512 << 20  # what the runtimes and the activations of a model take besides
MUCH = 1 << 30  # bytes of results, for which there has to be room


@dataclass(frozen=True)
class Room:
    memory: int  # bytes that can be filled before the system runs out, or stops us
    addresses: int  # bytes that can be mapped, files among them


@dataclass(frozen=True)
class Loading:
    """How to run a file: as anybody would, without optimisations, or, for a reason, not at all."""

    plain: bool = False
    refused: str = ""


def loading(source: str | os.PathLike | bytes) -> Loading:
    if isinstance(source, (str, os.PathLike)) and _together(Path(source)) < FEW:
        return Loading()
    inside, outside = _weights(source)
    total, largest = sum(inside) + sum(outside), max(outside, default=0)
    if total < FEW:
        return Loading()
    room = left()
    if min(room.memory, room.addresses) >= 2 * total + SLACK:
        return Loading()
    # What is in the file itself is read and copied, whatever is done with it.
    need = 2 * sum(inside) + 4 * largest + SLACK
    mapped = need + sum(outside)
    if room.memory >= need and room.addresses >= mapped:
        return Loading(plain=True)
    wanted, there = (need, room.memory) if room.addresses >= mapped else (mapped, room.addresses)
    return Loading(
        refused=f"onnxruntime needs about {told(wanted)} for weights of {told(total)}, and "
        f"{told(there)} are left; `hx verify` proves the file where there is more"
    )


def _together(path: Path) -> int:
    """More than a file and what belongs to it can have: all that its folder has."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(path.parent) if entry.is_file())
    except OSError:
        return FEW


def _weights(source: str | os.PathLike | bytes) -> tuple[list[int], list[int]]:
    """The sizes of the weights in a file, and beside it."""
    from ..saving.wire import weight_sizes

    try:
        return ([len(source)], []) if isinstance(source, bytes) else weight_sizes(Path(source))
    except (ValueError, OSError):  # it is no model: others say so better
        return [], []


def too_large(results: float) -> bool:
    """Whether a run with so many bytes of results may take more memory than is left."""
    return results > MUCH and 2 * results > left().memory


def left() -> Room:
    used = _status()
    addresses = min(
        _limit("RLIMIT_AS", used.get("VmSize", 0)), _limit("RLIMIT_DATA", used.get("VmData", 0))
    )
    return Room(max(0, min(_available(), _group(), addresses)), max(0, addresses))


def told(size: int) -> str:
    """Bytes as people say them, also when nobody has so many."""
    return f"{size / 1e9:.1f} GB" if size < 1e15 else f"{size / 1e9:.0e} GB"


def _limit(name: str, used: int) -> int:
    try:
        import resource
    except ImportError:  # Windows
        return PLENTY
    soft = resource.getrlimit(getattr(resource, name))[0]
    return PLENTY if soft == resource.RLIM_INFINITY else soft - used


def _status() -> dict[str, int]:
    return _table(Path("/proc/self/status"))


def _available() -> int:
    found = _table(Path("/proc/meminfo")).get("MemAvailable")
    if found is not None:
        return found
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return PLENTY


def _group() -> int:
    """What the control group leaves, where there is one; its cached files can go."""
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
    return PLENTY


def _table(path: Path) -> dict[str, int]:
    """`VmSize:   735492 kB` -> {"VmSize": 753143808}."""
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
