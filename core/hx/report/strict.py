"""Errors for open findings: `strict=True`, or `--strict`."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import EscapeError
from ..findings import OPEN, Finding


def require_none_open(findings: Iterable[Finding]) -> None:
    found = [each for each in findings if each.level == OPEN]
    if not found:
        return
    listed = "\n".join(f"  {each}" for each in found)
    raise EscapeError(
        f"strict=True allows no open finding, and there {'are' if len(found) > 1 else 'is'} "
        f"{len(found)}\n{listed}",
        where=found[0].where,
        why="the file would contain what the recording had, and other inputs may need something else",
        hint="compute with tensors instead, or export without strict",
    )
