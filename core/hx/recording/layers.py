"""The modules whose results are wanted instead of the model's: checks that they exist and run."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from ..errors import UsageError


def require_there(wanted: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for path in wanted:
        if path not in known:
            near = difflib.get_close_matches(path, known, 3)
            raise UsageError(
                f"the model has no module {path!r}",
                hint=f"did you mean {' or '.join(near)}?" if near else "hx inspect lists them",
            )


def require_run(wanted: Iterable[str], ran: Collection[str]) -> None:
    absent = [path for path in wanted if path not in ran]
    if absent:
        raise UsageError(f"{', '.join(absent)} did not run: there is no output to take")
