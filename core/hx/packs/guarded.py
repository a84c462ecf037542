"""Somebody else's code, called: what it raises is told as theirs, in one message with their line."""

from __future__ import annotations

import contextlib
from typing import Any

from hx.errors import ExportError, HxError, Where
from hx.packs.findings import brief, origin


class guarded(contextlib.AbstractContextManager[None]):
    """`with guarded("the pass fuse (hx-acme) raised"): ...` turns what is raised inside into an HxError.

    Also a sys.exit(), which ends the call and not the command. What else is no Exception comes
    from elsewhere (Ctrl-C) and goes on.
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


def told(problem: BaseException) -> str:
    """`ValueError: bad value`; or, for what would have ended the process, sys.exit(0)."""
    return f"sys.exit({problem.code!r})" if isinstance(problem, SystemExit) else brief(problem)
