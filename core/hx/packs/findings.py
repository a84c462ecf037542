"""What is wrong, or could be better, in a pack: data for people and programs, never a traceback."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any


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


# Where an exception surfaces, but hardly ever starts.
_NOBODY = frozenset({"hx", "pluggy", "importlib", "torch", "numpy", "onnx", "onnx_ir"})


def origin(problem: BaseException) -> tuple[str, int]:
    """File and line that an exception comes from: its deepest frame in somebody's own file."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return problem.filename, problem.lineno or 0
    somebody, anybody = ("", 0), ("", 0)
    frame: TracebackType | None = problem.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        module = frame.tb_frame.f_globals.get("__name__", "").split(".")[0]
        if not code.co_filename.startswith("<") and module not in (
            "hx",
            "pluggy",
            "importlib",
            "typer",
            "click",
        ):
            anybody = (code.co_filename, frame.tb_lineno)
            if module not in _NOBODY:
                somebody = anybody
        frame = frame.tb_next
    return somebody if somebody[0] else anybody


def brief(problem: BaseException) -> str:
    """`ValueError: bad value`, in one line."""
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0]}" if text else type(problem).__name__
