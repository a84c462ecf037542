"""Files of a save that is under way, and what a killed one left behind.

A save works on hidden files beside its target (`.NAME.TOKEN.hx-tmp`) and holds a lock on each
until it is through. The system drops the locks of a dead process, so a file that can be locked is
a leftover. What has no target works in a folder of its own (`.hx.TOKEN.hx-tmp.d` among the
temporary files), beside a hidden file that says whether it is in use.

Data files are named by their contents (`STEM.HASH.data`); one is only ever removed when nobody
holds it and no model in its folder mentions it, so whatever moment a save is killed at, no model
loses its weights, and the next save cleans up: a data file that is not, or no longer, part of a
model is always mentioned by a hidden file of the save that was to deal with it. (Saves to one path
at the same time are safe too, but may leave a data file that no model uses.)
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: a file that is open there cannot be removed, which will do
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".hx-tmp"


class Claim:
    """A file that is ours while it is open, and anything to be removed with it.

    It is open as a Python file: one that an interrupt makes us lose sight of closes by itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None

    @property
    def fd(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    @property
    def folder(self) -> Path:
        """The folder beside the file for others that belong to it; most files have none."""
        return self.path.with_name(f"{self.path.name}.d")

    def open(self, mode: str) -> None:
        self._file = FileIO(self.path, mode)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Remove a hidden file of ours, after its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.path.unlink(missing_ok=True)
        self.close()


class Hidden:
    """The hidden files of one piece of work: `with Hidden() as hidden: hidden.create(target)`.

    Each is listed before it exists, and removing them may be begun any number of times: so an
    interrupt, whenever it comes, leaves none behind.
    """

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._process = os.getpid()

    def __enter__(self) -> Hidden:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if os.getpid() != self._process:  # forked meanwhile: they are the other one's
            return
        while self._claims:
            with contextlib.suppress(OSError):
                self._claims[-1].discard()
            self._claims.pop()

    __del__ = close

    @property
    def paths(self) -> list[Path]:
        return [claim.path for claim in self._claims]

    def create(self, target: Path) -> Claim:
        """A new hidden file for a save to `target`, in the same folder and locked."""
        while True:
            name = f"{_prefix(target)}{secrets.token_hex(4)}{SUFFIX}"
            claim = Claim(target.with_name(name))
            self._claims.append(claim)
            try:
                claim.open("x+")
            except FileExistsError:  # somebody else's
                self._claims.pop()
                continue
            if _lock(claim.fd) and os.fstat(claim.fd).st_nlink:
                return claim
            claim.close()  # taken for a leftover in the moment before it was locked

    def create_folder(self) -> Path:
        """A folder among the temporary files, for a save without a target; dead saves' folders
        go.
        """
        target = Path(tempfile.gettempdir(), "hx")
        sweep(target)
        folder = self.create(target).folder
        folder.mkdir(mode=0o700)
        return folder


def hold(path: Path) -> Claim | None:
    """Keep an existing data file from being removed; None when it is not there."""
    while True:
        claim = Claim(path)
        try:
            claim.open("r")
        except FileNotFoundError:
            return None
        _lock(claim.fd, shared=True, wait=True)
        if os.fstat(claim.fd).st_nlink:
            return claim
        claim.close()


def share(claim: Claim) -> None:
    """Let other saves hold the same data file."""
    _lock(claim.fd, shared=True, wait=True)


def data_name(target: Path, digest: str) -> str:
    stem = target.stem
    while len(os.fsencode(stem)) > 200:
        stem = stem[:-1]
    return f"{stem}.{digest}.data"


def data_files(target: Path) -> list[Path]:
    """The data files that saves to `target` have made, by their names."""
    start = re.escape(data_name(target, "|").split("|")[0])
    pattern = re.compile(start + r"[0-9a-f]{16}(-\d+)?\.data")
    return [path for path in _listed(target.parent) if pattern.fullmatch(path.name)]


def mentioned(model: Path, data: Iterable[Path]) -> list[Path]:
    """Return the data files whose names occur in a model file."""
    data = list(data)
    try:
        if not data or not model.stat().st_size:
            return []
        with model.open("rb") as file:
            bytes_ = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        return []
    with bytes_:
        return [path for path in data if bytes_.find(os.fsencode(path.name)) >= 0]


def discard_data(target: Path, data: Iterable[Path], ignoring: Iterable[Path] = ()) -> None:
    """Remove the data files that no process holds and no model in the folder mentions."""
    for path in data:
        with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
            models = (m for m in _models(target) if m not in ignoring)
            if _lock(file.fileno()) and not any(mentioned(m, [path]) for m in models):
                path.unlink()


def sweep(target: Path) -> None:
    """Remove what killed saves to `target` left; files that cannot be removed are let be."""
    dead: list[Claim] = []
    start = _prefix(target)
    for path in _listed(target.parent, start, SUFFIX):
        if path.is_file():
            with contextlib.suppress(OSError):
                claim = Claim(path)
                claim.open("r+")
                if _lock(claim.fd, without=False):
                    dead.append(claim)
                else:
                    claim.close()
    if dead:
        data = data_files(target)
        suspects = {path for claim in dead for path in mentioned(claim.path, data)}
        discard_data(target, sorted(suspects), ignoring=[claim.path for claim in dead])
    for claim in dead:  # after the data that they mention, so that a kill in between loses nothing
        with contextlib.suppress(OSError):
            claim.discard()


def _prefix(target: Path) -> str:
    return f".{target.name[:40]}."


def _models(target: Path) -> Iterator[Path]:
    for path in _listed(target.parent):
        if (path.suffix in (".onnx", SUFFIX) or path == target) and path.is_file():
            yield path


def _listed(folder: Path, start: str = "", end: str = "") -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a folder may hold thousands, and few are ours
    except OSError:
        return []
    return [folder / n for n in sorted(names) if n.startswith(start) and n.endswith(end)]


def _lock(fd: int, shared: bool = False, wait: bool = False, without: bool = True) -> bool:
    """Take the lock if possible, and return True if it is held; `without` is the answer if the
    system has no locks.
    """
    if fcntl is None:
        return without
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without
    return True
