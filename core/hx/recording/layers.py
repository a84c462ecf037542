"""The modules whose results are wanted instead of the model's: checks that they exist and run."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import UsageError
from ..text import did_you_mean


def require_there(wanted: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for path in wanted:
        if path not in known:
            raise UsageError(
                f"the model has no module {path!r}",
                hint=did_you_mean(path, known, "hx inspect lists them", 3),
            )


def require_run(wanted: Iterable[str], ran: Collection[str]) -> None:
    absent = [path for path in wanted if path not in ran]
    if absent:
        raise UsageError(f"{', '.join(absent)} did not run: there is no output to take")
