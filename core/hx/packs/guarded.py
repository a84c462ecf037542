"""Calls of other people's code: its errors are reported as theirs, with their line."""

from __future__ import annotations

import contextlib
import linecache
from pathlib import Path
from traceback import walk_tb
from typing import Any

from hx.errors import ExportError, HxError, ImportFailed, Where
from hx.packs.pack_findings import brief, own_line, source_line, where_raised


class guarded(contextlib.AbstractContextManager[None]):
    """`with guarded("the pass fuse (hx-acme) raised"): ...` turns errors inside into an HxError.

    That includes a sys.exit(), which ends the call and not the command. Any other exception that is
    no Exception comes from elsewhere (Ctrl-C) and passes through.
    """

    def __init__(self, what: str, kind: type[HxError] = ExportError, hint: str = "") -> None:
        self.what, self.kind, self.hint = what, kind, hint

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if not isinstance(problem, (Exception, SystemExit)) or isinstance(problem, HxError):
            return
        what = f"{self.what} {told(problem)}"
        raise self.kind(what, where=where_raised(problem), hint=self.hint) from problem


class of_user(guarded):
    """`guarded` for a user's code: the user's own line comes first, then that of a library."""

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        try:
            super().__exit__(kind, problem, trace)
        except self.kind as failed:
            cause = failed.__cause__ or failed
            file, line = own_line(cause)
            text = linecache.getline(file, line).strip()
            if failed.where is not None and (file, line) != failed.where.file_line:
                failed.why = f"raised at {failed.where}"
                failed.where = Where(file, line)
            failed.why = source_line(cause) or text or failed.why
            failed.hint = _next_step(cause, text) or failed.hint
            raise


class importing(of_user):
    """`with importing("model.py"): ...` is around the import of a user's code."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be imported:", ImportFailed)


class making(of_user):
    """`with making(spec): ...` is around the call of a user's class or function."""

    def __init__(self, spec: str) -> None:
        super().__init__(f"{spec!r} cannot be made:")


def _next_step(problem: BaseException, text: str) -> str:
    """Return a hint for an error that the code of a user raised on a line."""
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        name = problem.name.partition(".")[0]
        if Path(name).is_dir() or Path(f"{name}.py").is_file():
            return f"{name} is in the current folder: set PYTHONPATH=. before hx"
        return f"install what has the module {problem.name}, or correct the name"
    if isinstance(problem, SystemExit) or "sys.argv" in text:
        return (
            'put what a script does under `if __name__ == "__main__":`, or run it with its '
            "arguments: hx watch FILE ARGS"
        )
    if isinstance(problem, FileNotFoundError) and not Path(problem.filename or "/").is_absolute():
        return f"a relative path starts in the current folder: {Path.cwd()}"
    if "CUDA" in str(problem) and no_cuda():
        return 'torch sees no CUDA device here: make the model on the CPU, map_location="cpu"'
    if isinstance(problem, AttributeError) and "before Module.__init__() call" in str(problem):
        return "call super().__init__() first, in the __init__ of the module"
    return ""


def no_cuda() -> bool:
    import torch

    return not torch.cuda.is_available()


def failed_to_import(problem: BaseException) -> bool:
    """Return True if an exception was raised while a module was imported."""
    return any(frame.f_code.co_name == "<module>" for frame, _ in walk_tb(problem.__traceback__))


def told(problem: BaseException) -> str:
    """Return `ValueError: bad value`; for a SystemExit, sys.exit(0)."""
    return f"sys.exit({problem.code!r})" if isinstance(problem, SystemExit) else brief(problem)
