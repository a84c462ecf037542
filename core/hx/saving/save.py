"""Write a model to its path: the whole of it, or nothing.

    with save.Staged("m.onnx") as staged:   # a hidden file beside the target
        staged.ahead.put(weight)            # of what is going to be in the model, or nothing
        staged.write(model)
        proof = file_proof.prove(staged.path, cases)
        staged.commit()                     # now, and at once, it is the target

Without `commit` everything written is removed, whatever the way out. A model's weights are in the
file itself up to 1.5 GB, above that (or when asked) in a data file beside it. The data file is
named by its contents, so the old model keeps its own data until the moment that it is replaced,
and the data that only the old model used goes after that. As with a plain write, the system decides
when the bytes reach the disk: waiting for that would take as long again.

What is saved is the `Parts` of a model, or an onnx_ir model; onnx is imported when that is done.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hx.cleanup import Reversible, run_inside
from hx.errors import ExportError, HxError, UsageError
from hx.graph.model_parts import Parts
from hx.saving import claims, destinations, model_file
from hx.saving.claims import Claim
from hx.saving.write_ahead import WriteAhead, is_core_idle

if TYPE_CHECKING:
    import onnx_ir

    Writable = Parts | onnx_ir.Model

INLINE_MAX = 1_500_000_000


@dataclass(frozen=True)
class Saved:
    path: Path | None
    size: int  # bytes on disk, of the model file and its data file together
    data_path: Path | None
    seconds: float  # spent writing; what ran between writing and commit is not counted


def save(model: Writable, path: str | os.PathLike, external: bool | None = None) -> Saved:
    """Write `model` to `path`, with its weights inside or beside it; `None` decides by size."""
    return run_inside(staged(model, path, external), Staged.commit)


def staged(model: Writable, path: str | os.PathLike | None, external: bool | None = None) -> Staged:
    """Write `model` completely, under another name."""
    return Staged(path, external, model)


def write_text(text: str, path: str | os.PathLike) -> None:
    """Write a file that is not a model, such as a report on one: the whole of it, or nothing."""
    with _explained(Path(path)), claims.Hidden() as hidden:
        target = _target(Path(path))
        claim = _create(hidden, target)
        with open(claim.fd, "wb", closefd=False) as file:
            file.write(text.encode())
        _move(claim, target)


def parts_of(model: Writable) -> Parts:
    if isinstance(model, Parts):
        return model
    from hx.saving import ir

    return ir.take_apart(model)


class Staged(Reversible):
    """A file that is not yet in its place; read it at `path` meanwhile.

    If it is not to have a place, it is in a folder of its own. A `model` that is given is written.

    Every file is registered before it is made, and closing may be repeated any number of times: so
    an interrupt, whenever it comes, leaves nothing behind.
    """

    path: Path  # the file to read, hidden or in its place
    target: Path
    ahead: WriteAhead | None = None

    def __init__(
        self,
        path: str | os.PathLike | None,
        external: bool | None = None,
        model: Writable | None = None,
    ) -> None:
        self.data_path: Path | None = None
        self.size = 0
        self._kept: Path | None = None
        self._where, self._external, self._what = path, external, model
        self._seconds = 0.0
        self._hidden = claims.Hidden()
        self._data: Claim | None = None
        self._loose: list[Path] = []  # data files that no model may need when the work ends

    def _set_up(self) -> Staged:
        with _explained(Path(self._where or tempfile.gettempdir())):
            if self._where is None:
                self.target = self._hidden.create_folder() / "model.onnx"
            else:
                self.target = _target(Path(self._where))
        with _explained(self.target):
            claims.sweep(self.target)
            self._model = self._create()
        self.path = self._model.path
        self.ahead = WriteAhead(self.path)
        if self._what is not None:
            self.write(self._what)
        return self

    def ahead_of(self, size: int) -> WriteAhead | None:
        """The writer for weights of a model that is yet to come, of about this size, if it helps."""
        external = size > INLINE_MAX if self._external is None else self._external
        return self.ahead if not external and is_core_idle() else None

    def write(self, model: Writable) -> None:
        start = time.perf_counter()
        parts = parts_of(model)
        external = _is_external(parts, self._external, self.target)
        with _explained(self.target):
            if external and any(weight.size >= model_file.INLINE_BYTES for weight in parts.weights):
                self._write_external(parts)
            else:
                self._write_inline(parts)
            self.size = os.fstat(self._model.fd).st_size
            if self._data is not None:
                self.size += os.fstat(self._data.fd).st_size
        self._seconds += time.perf_counter() - start

    def _write_inline(self, parts: Parts) -> None:
        assert self.ahead is not None
        there, end = self.ahead.keep(parts.early)
        with self._writing(self._model, end) as write:
            model_file.write_inline(parts, write, there)
        os.lseek(self._model.fd, 0, os.SEEK_SET)
        os.write(self._model.fd, model_file.start(parts, model_file.graph_size(parts)))

    def _write_external(self, parts: Parts) -> None:
        assert self.ahead is not None
        self.ahead.close()
        data = self._create()
        with self._writing(data) as write:
            offsets, digest = model_file.write_data(parts, write)
        place = self._place_of(data, digest)
        with self._writing(self._model) as write:
            model_file.write_external(parts, offsets, place.name, write)
        self._settle(data, place)

    def append(self, more: bytes) -> None:
        """Add a part that may stand behind all the rest of a model."""
        with _explained(self.target):
            os.lseek(self._model.fd, 0, os.SEEK_END)
            os.write(self._model.fd, more)
            self.size += len(more)

    def commit(self) -> Saved:
        """Move the staged model to its target path; a model in memory (`path=None`) stays as it is."""
        if self._where is None:
            return Saved(None, self.size, None, self._seconds)
        start = time.perf_counter()
        with _explained(self.target):
            replaced = claims.mentioned(self.target, claims.data_files(self.target))
            replaced = [path for path in replaced if path != self.data_path]
            self._loose += replaced
            if replaced:  # a note of what is to go, should we not live to do it
                note = self._create()
                os.write(note.fd, "\n".join(path.name for path in replaced).encode())
            _move(self._model, self.target)
            self.path = self.target
        self._seconds += time.perf_counter() - start
        return Saved(self.target, self.size, self.data_path, self._seconds)

    def keep(self, as_path: str | os.PathLike) -> Path:
        """Keep a model that is not to be committed, under another name."""
        with _explained(Path(as_path)):
            kept = _target(Path(as_path))
            if self.data_path is not None and kept.parent == self.target.parent:
                self._loose.remove(self.data_path)
            elif self.data_path is not None:
                shutil.copyfile(self.data_path, kept.with_name(self.data_path.name))
            self._kept = kept
            shutil.copyfile(self.path, kept)
        return kept

    def forget(self) -> None:
        """Remove the model that was kept: there is a better one now."""
        if self._kept is not None:
            with _explained(self._kept):
                beside = claims.data_files(self._kept.with_name(self.target.name))
                data = claims.mentioned(self._kept, beside)
                self._kept.unlink(missing_ok=True)
                claims.discard_data(self._kept, data)

    def _undo(self) -> None:
        """Remove all files that are in no model. It reads the folder, so it survives interrupts."""
        if self.ahead is not None:
            self.ahead.close()
        if self._data is not None:
            self._data.close()
        if self._loose:
            claims.discard_data(self.target, self._loose, ignoring=self._hidden.paths)
        self._hidden.close()

    __del__ = Reversible.close

    def _create(self) -> Claim:
        return _create(self._hidden, self.target)

    @contextlib.contextmanager
    def _writing(self, claim: Claim, start: int = 0) -> Iterator[model_file.Write]:
        """Truncate a file at `start`, and write it anew from there."""
        os.ftruncate(claim.fd, start)
        os.lseek(claim.fd, start, os.SEEK_SET)
        with open(claim.fd, "wb", buffering=model_file.BUFFER, closefd=False) as file:
            yield file.write

    def _place_of(self, data: Claim, digest: str) -> Path:
        """A name for the data that is free, or taken by the very same bytes."""
        count = 0
        while True:
            tail = f"-{count}" if count else ""
            place = self.target.with_name(claims.data_name(self.target, digest + tail))
            self._data = claims.hold(place)
            if self._data is None or filecmp.cmp(data.path, place, shallow=False):
                return place
            self._data.close()
            count += 1

    def _settle(self, data: Claim, place: Path) -> None:
        """Give the data its name; the model file, which mentions it, is already written."""
        self.data_path = place
        self._loose.append(place)
        if self._data is not None:
            data.discard()
            return
        claims.share(data)
        _move(data, place)
        self._data = data


def _create(hidden: claims.Hidden, target: Path) -> Claim:
    claim = hidden.create(target)
    if target.exists():
        with contextlib.suppress(OSError):
            os.fchmod(claim.fd, stat.S_IMODE(target.stat().st_mode))
    return claim


def _move(claim: Claim, place: Path) -> None:
    if os.name == "nt":  # there, an open file cannot be moved
        claim.close()
    claim.path.replace(place)


def _is_external(parts: Parts, external: bool | None, target: Path) -> bool:
    size = model_file.inline_size(parts)
    if external is None:
        return size > INLINE_MAX
    if not external and size > model_file.PROTOBUF_LIMIT:
        raise UsageError(
            f"{target.name} would have {size / 1e9:.1f} GB, and a single ONNX file holds 2 GB",
            hint="leave the weights in a data file beside it (external=True)",
        )
    return external


def _target(path: Path) -> Path:
    """The file that is to be replaced: what a link points to, in a folder that is there."""
    real = Path(os.path.realpath(path))
    problem = ""
    if real.is_symlink():
        problem = "it is a link that leads back to itself"
    elif real.is_dir():
        problem = "it is a folder"
    elif real.exists() and not real.is_file():
        problem = "it is a device or a pipe, not a file"
    elif real.exists() and not os.access(real, os.W_OK):
        problem = "the file that is there is read-only"
    elif not real.parent.is_dir():
        problem = f"there is no folder {real.parent}"
    else:
        problem = destinations.unfit(path)
    if problem:
        raise UsageError(f"cannot write {path}", why=problem, hint="give another path")
    return real


_USER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Explain in words what the file system refused."""
    try:
        yield
    except OSError as error:
        kind: type[HxError] = UsageError if error.errno in _USER else ExportError
        hint = "free some space there, or give another path" if error.errno in _FULL else ""
        about = f" ({error.filename})" if error.filename else ""
        raise kind(
            f"cannot write {target}",
            why=f"{str(error.strerror or error).lower()}{about}; what was there is untouched",
            hint=hint or "check the folder, or give another path",
        ) from error
