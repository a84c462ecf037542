"""Findings: faults of a pack and possible improvements, as data for people and programs."""

from __future__ import annotations

import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Any

from ..errors import Where

MARGIN = len("  why:   ")  # in front of what an error prints


@dataclass(frozen=True)
class Finding:
    """One thing to say about a pack. An `error` takes the pack out, a `warning` does not."""

    id: str
    level: str
    message: str
    fix: str = ""
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.level} {self.id}: {self.message}"]
        if self.file:
            lines.append(f"  where: {self.place}")
        if self.fix:
            lines.append(f"  fix:   {self.fix}")
        return "\n".join(lines)


def error(id: str, message: str, fix: str = "", at: tuple[str, int] = ("", 0)) -> Finding:
    return Finding(id, "error", message, fix, *at)


def warning(id: str, message: str, fix: str = "", at: tuple[str, int] = ("", 0)) -> Finding:
    return Finding(id, "warning", message, fix, *at)


# Packages in which an exception surfaces, but hardly ever starts.
_NOBODY = frozenset({"hx", "pluggy", "importlib", "torch", "numpy", "onnx", "onnx_ir"})
# Packages that only call others.
_CALLING = frozenset({"hx", "pluggy", "importlib", "typer", "click"})


def origin(problem: BaseException) -> tuple[str, int]:
    """File and line that an exception comes from: its deepest frame in somebody's own file."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return problem.filename, problem.lineno or 0
    somebody, anybody = ("", 0), ("", 0)
    for frame, line in walk_tb(problem.__traceback__):
        file = frame.f_code.co_filename
        module = frame.f_globals.get("__name__", "").split(".")[0]
        if not file.startswith("<") and module not in _CALLING:
            anybody = (file, line)
            if module not in _NOBODY:
                somebody = anybody
    return somebody if somebody[0] else anybody


def where_raised(problem: BaseException) -> Where | None:
    """Return the place that an exception comes from, if it has one."""
    file, line = origin(problem)
    return Where(file, line) if file else None


def own_line(problem: BaseException) -> tuple[str, int]:
    """File and line of the deepest frame that is in no library; of the origin if there is none."""
    libraries = _libraries()
    found = origin(problem)
    if _is_own(found[0], libraries):
        return found
    for frame, line in walk_tb(problem.__traceback__):
        if _is_own(frame.f_code.co_filename, libraries):
            found = frame.f_code.co_filename, line
    return found


def is_of_user(problem: BaseException) -> bool:
    """Return True if the code of a user is among what raised an exception."""
    libraries, frames = _libraries(), walk_tb(problem.__traceback__)
    return any(_is_own(frame.f_code.co_filename, libraries) for frame, _ in frames)


def _libraries() -> tuple[str, ...]:
    return sysconfig.get_path("stdlib"), str(Path(__file__).parents[1])


def _is_own(file: str, libraries: tuple[str, ...]) -> bool:
    installed = any(f"/{name}-packages/" in file for name in ("site", "dist"))
    return bool(file) and file[0] != "<" and not installed and not file.startswith(libraries)


def source_line(problem: BaseException) -> str:
    """Return the line of a syntax error with a caret below the place; "" for other errors."""
    if not isinstance(problem, SyntaxError) or not problem.text:
        return ""
    text = problem.text.rstrip()
    bare = text.lstrip()
    column = max((problem.offset or 1) - 1 - (len(text) - len(bare)), 0)
    return f"{bare}\n{' ' * (MARGIN + column)}^"


def brief(problem: BaseException) -> str:
    """`ValueError: bad value`, in one line."""
    text = str(problem.msg if isinstance(problem, SyntaxError) else problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0]}" if text else type(problem).__name__
