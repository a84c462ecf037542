"""Calls of other people's code: its errors are reported as theirs, with their line."""

from __future__ import annotations

import contextlib
from typing import Any

from hx.errors import ExportError, HxError, ImportFailed, Where
from hx.packs.pack_findings import brief, origin, own_line, source_line


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
        file, line = origin(problem)
        raise self.kind(
            f"{self.what} {told(problem)}",
            where=Where(file, line) if file else None,
            hint=self.hint,
        ) from problem


class importing(guarded):
    """`guarded` for the code of a model: the user's own line comes first, then that of a library."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be imported:", ImportFailed)

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        try:
            super().__exit__(kind, problem, trace)
        except ImportFailed as failed:
            cause = failed.__cause__ or failed
            file, line = own_line(cause)
            if failed.where is not None and (file, line) != (failed.where.file, failed.where.line):
                failed.why = f"raised at {failed.where}"
                failed.where = Where(file, line)
            failed.why = source_line(cause) or failed.why
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                failed.hint = f"install what has the module {cause.name}, or correct the name"
            raise


def told(problem: BaseException) -> str:
    """Return `ValueError: bad value`; for a SystemExit, sys.exit(0)."""
    return f"sys.exit({problem.code!r})" if isinstance(problem, SystemExit) else brief(problem)
