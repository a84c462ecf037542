"""What can go wrong, drawn as a tree.

HxError
├── UsageError            the call itself is off: a name, a shape, an opset, a file     (exit 2)
│   └── TargetError       a target string names nothing, or nothing that can be hooked
├── ExportError           the model cannot be turned into a right graph                 (exit 1)
│   ├── MissingConverters calls that no installed pack converts, all of them at once    (exit 5)
│   ├── ConverterError    a converter raised, or returned what the target does not
│   │   └── BuilderError  a converter emitted a node that ONNX does not have
│   ├── Unsupported       a call that is understood, and that ONNX cannot say
│   ├── Unaccounted       a tensor whose origin the recording did not see
│   └── EscapeError       a traced value left the graph, under strict=True
├── VerificationError     the written graph does not compute what the model computes    (exit 4)
└── PackError             a pack is broken, missing or in a tie with another            (exit 3)

Each message has the same four parts: what happened, where (the user's own line), why, and what to
do next. `what` is required; the others are printed when they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Where:
    """A place in somebody's code, and the module path that was running there."""

    file: str
    line: int
    scope: str = ""
    function: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "<unknown>"
        return f"{place} (in {self.scope})" if self.scope else place


class HxError(Exception):
    """Root of every error that hx raises on purpose."""

    exit_code = 1

    def __init__(
        self, what: str, *, where: Where | None = None, why: str = "", hint: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.report: Any = None  # how far an export came, where there is something to show

    def __str__(self) -> str:
        parts = [self.what]
        if self.where is not None:
            parts.append(f"  where: {self.where}")
        if self.why:
            parts.append(f"  why:   {self.why}")
        if self.hint:
            parts.append(f"  hint:  {self.hint}")
        return "\n".join(parts)


class UsageError(HxError):
    exit_code = 2


class TargetError(UsageError):
    pass


class ExportError(HxError):
    exit_code = 1


class ConverterError(ExportError):
    pass


class BuilderError(ConverterError):
    pass


class Unsupported(ExportError):
    pass


class Differentiates(Unsupported):
    """The model asks for derivatives as it runs."""


class Leaves(Unsupported):
    """Something left the graph that may stay in it where the model hears that it is not traced."""


class Asks(Unsupported):
    """The model asks what is in a tensor: both of what follows may become one graph, or rounds that
    it asks in one loop."""

    joined: bool = True  # whether it asks so little that both may
    until: Any = ()  # what it may ask in each round
    again: Any = ()  # the lines that it asks on again and again


class Baked(Unsupported):
    """One side of a branch would have a number of data that do not lead there."""


class Rounds(Unsupported):
    """Sizes say how often the model goes round: that may become a loop."""

    other: Any = None  # how to record it then
    numbered: Any = None  # and where its rounds differ by their number
    asked: bool = False  # whether the model asks what is in its tensors in each of them


class Unaccounted(ExportError):
    pass


class EscapeError(ExportError):
    pass


class MissingConverters(ExportError):
    """Everything that has no converter; `missing` holds one record per target."""

    exit_code = 5

    def __init__(self, what: str, missing: list, **parts) -> None:
        super().__init__(what, **parts)
        self.missing = missing


class VerificationError(HxError):
    exit_code = 4

    def __init__(self, what: str, *, proof=None, **parts) -> None:
        super().__init__(what, **parts)
        self.proof = proof


class PackError(HxError):
    exit_code = 3


def is_of_the_world(problem: Exception) -> bool:
    """A full disk, or a model that could not be put back: to be known, whatever came before."""
    if isinstance(problem, HxError) and isinstance(problem.__cause__, OSError):
        return True
    return type(problem) is ExportError and not isinstance(problem.__cause__, SystemExit)
