"""The files that a process reads: what a model is made from.

A SPEC does not say it: the module imports others, and those read what they like. So every file is
noted as Python opens it, with its state at that moment, because a change after that is a change. Of
installed distributions only the metadata is noted, which each installation writes anew.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Stamp = list[int] | None


def stamp(path: str | Path) -> Stamp:
    """Size and time of a file; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns] if stat.S_ISREG(found.st_mode) else None


class Reading:
    """The files that this process reads from now on, and the modules that it has loaded before."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        ours = [*site.getsitepackages(), site.getusersitepackages()]
        self._site = _folders([*ours, paths["purelib"], paths["platlib"]])
        self._elsewhere = self._site + _folders(
            [paths["stdlib"], paths["platstdlib"], "/proc", "/sys"]
        )
        self._read: dict[str, Stamp] = {}
        self._written: set[str] = set()
        for module in list(sys.modules.values()):
            self._note(getattr(module, "__file__", None))
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
                self._written.add(_absolute(path))
            else:
                self._note(path)
        elif event == "os.rename":
            self._written.add(_absolute(args[1]))
        elif event == "import":
            self._note(args[1])  # where it is a library, which is not opened from Python
        elif event == "ctypes.dlopen":
            self._note(args[0])

    def _note(self, path: Any) -> None:
        path = _absolute(path)
        if path.endswith(".pyc"):
            with contextlib.suppress(ValueError):  # it stands alone
                path = importlib.util.source_from_cache(path)
        if path and path not in self._read and not path.startswith(self._elsewhere):
            self._read[path] = stamp(path)

    def files(self) -> dict[str, Stamp]:
        """All that was read, except what this process has written itself."""
        return {
            path: state
            for path, state in self._read.items()
            if state is not None and path not in self._written and Path(path).exists()
        }

    def installed(self) -> dict[str, Stamp]:
        """The metadata of the distributions whose modules were loaded."""
        return {str(path): stamp(path) for path in self._installed() if path.exists()}

    def _installed(self) -> Iterable[Path]:
        files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
        loaded = {
            name.partition(".")[0]
            for name, file in files.items()
            if file and file.startswith(self._site)
        }
        by_module = distributions_by_module()
        for name in sorted({each for top in loaded for each in by_module.get(top, ())}):
            folder = getattr(importlib.metadata.distribution(name), "_path", "")
            yield from (Path(folder, name) for name in ("METADATA", "PKG-INFO"))


@functools.cache
def distributions_by_module() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{Path(path).absolute()}{os.sep}" for path in paths)


def _absolute(path: Any) -> str:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""  # a file that was open already
    return str(Path(os.fsdecode(path)).absolute())
