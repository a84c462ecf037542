"""Checks that results go to files, never over their own sources, and never over each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import OutputError

Source = tuple[str, "str | os.PathLike"]  # a description in words, and the path
_TENSORS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".index.json")
_LINKS = 40  # as many as the system follows


def unfit(path: str | os.PathLike) -> str:
    """The reason why no file can be written there, whatever the folder holds; empty if one can."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return "its name is not in UTF-8, which the libraries that read a graph ask for"
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):  # its folder is looked at by itself
        pass
    except (OSError, ValueError) as problem:
        return str(getattr(problem, "strerror", None) or problem).lower()
    return "that is a stream or a device, not a file" if _is_stream(path) else ""


def _is_stream(path: str | os.PathLike) -> bool:
    """Return True for a path such as `/dev/stdout`: the file behind it is the shell's, not ours."""
    place = Path(path).absolute()
    for _ in range(_LINKS):
        folder = Path(os.path.realpath(place.parent))
        if str(folder) in ("/dev", "/dev/fd") or folder.parts[:2] == ("/", "proc"):
            return True
        place = folder / place.name
        if not place.is_symlink():
            return False
        place = folder / place.readlink()
    return False


def same(a: str | os.PathLike, b: str | os.PathLike) -> bool:
    """Return True if two paths lead to one file, existing or not."""
    return _same_as(a)(b)


def identity(path: str | os.PathLike) -> tuple[int, int] | str:
    """A key that is equal for two paths that lead to one file, existing or not."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _same_as(a: str | os.PathLike) -> Callable[[str | os.PathLike], bool]:
    """Return a test for paths to the same file as `a`, which is looked up once for thousands of them."""
    try:
        here = Path(a).stat()
    except (OSError, ValueError):
        place = os.path.realpath(a)
        return lambda b: os.path.realpath(b) == place

    def is_it(b: str | os.PathLike) -> bool:
        try:
            # A Path for each of a thousand files takes longer than a small export.
            return os.path.samestat(here, os.stat(b))  # noqa: PTH116
        except (OSError, ValueError):  # that is not there: this is
            return False

    return is_it


def of_spec(spec: str, folder: Path = Path()) -> list[Source]:
    place = spec.rpartition(":")[0]
    loose = place.endswith(".py") or "/" in place
    return [("the file of the model", folder / place)] if loose else []


def of_weights(path: str | os.PathLike | None) -> list[Source]:
    """Return the files of weights at a path: for a folder, or an index, all that lie there."""
    if path is None:
        return []
    here = Path(path)
    found = [here]
    if here.is_dir() or here.name.endswith(".index.json"):
        folder = here if here.is_dir() else here.parent
        found += [each for each in folder.iterdir() if each.name.endswith(_TENSORS)]
    return [("a file that the export reads", each) for each in found]


def of_code() -> list[Source]:
    """The files that Python has read so far: the model came from some of them."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [("a file of the code that runs", f) for f in files if isinstance(f, str)]


def require_unused(path: str | os.PathLike | None, weights: str | os.PathLike | None) -> None:
    """Raise OutputError if an export to `path` would overwrite one of its own sources."""
    if path is None or not Path(path).exists():
        return
    sources = of_weights(weights)
    if not _is_graph(Path(path)):  # a process has read thousands of files of code
        sources += of_code()
    require_apart(f"{os.fspath(path)} cannot be written", path, sources)


def _is_graph(path: Path) -> bool:
    """Return True if a file begins as ONNX files do, with the version field; no code does."""
    if not path.is_file():
        return False
    try:
        with path.open("rb", buffering=0) as file:
            return file.read(1) == b"\x08"
    except OSError:
        return False


def require_apart(what: str, path: str | os.PathLike, sources: Iterable[Source]) -> None:
    """Raise if a path is one of the sources; `what` is the path as the caller gave it."""
    is_it = _same_as(path)
    for told, source in sources:
        if is_it(source):
            raise OutputError(
                f"{what}: that is {told}, which would be written over",
                hint="give another path",
            )
