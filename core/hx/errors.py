"""Errors of hx, as a tree.

HxError                   the work ended before its end                          HX100  (exit 1)
├── UsageError            the call itself is off: a name, a shape, a file        HX200  (exit 2)
│   ├── TargetError       a target string names nothing that can be hooked       HX201
│   ├── SpecError         a SPEC does not lead to a model                        HX202
│   ├── InputError        the inputs do not fit the model's signature            HX203
│   ├── OutputError       a result cannot be written to the given path           HX204
│   └── CertificateError  a certificate is damaged, or not signed with the key   HX205
├── ExportError           the model cannot be turned into a right graph          HX101  (exit 1)
│   ├── ConverterError    a converter raised, or returned the wrong thing        HX102
│   │   └── BuilderError  a converter emitted a node that ONNX does not have     HX103
│   ├── Unsupported       a call that ONNX cannot express                        HX104
│   │   └── Differentiates  the model asks for derivatives as it runs            HX105
│   ├── Unaccounted       a tensor whose origin the recording did not see        HX106
│   ├── EscapeError       a traced value left the graph, under strict=True       HX107
│   ├── ImportFailed      the code of the model cannot be imported               HX108
│   ├── ModelFailed       the model refused its inputs, or raised                HX109
│   └── MissingConverters calls that no installed pack converts, all at once     HX500  (exit 5)
├── MissingDependency     a library that hx needs is not installed               HX110  (exit 1)
├── VerificationError     the file does not compute what the model computes      HX400  (exit 4)
│   └── NotCertified      the file is not the one that a certificate is for      HX401
└── PackError             a pack is broken, missing or in a tie with another     HX300  (exit 3)

Each code has a page in the folder `error_pages`, which `hx explain CODE` shows.

Each message has the same four parts: what happened, where (the user's own line), why, and what to
do next. `what` is required; the others are printed when they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Where:
    """Place in somebody's code, and the module path that was running there."""

    file: str
    line: int
    scope: str = ""
    function: str = ""

    def __str__(self) -> str:
        place = self.place or "<unknown>"
        return f"{place} (in {self.scope})" if self.scope else place

    @property
    def place(self) -> str:
        """File and line, or "" if none is known."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def file_line(self) -> tuple[str, int]:
        """File and line, as recipes name a line of the model."""
        return self.file, self.line

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "scope": self.scope,
            "function": self.function,
        }


class HxError(Exception):
    """Root of every error that hx raises on purpose."""

    exit_code = 1
    code = "HX100"

    def __init__(
        self, what: str, *, where: Where | None = None, why: str = "", hint: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.report: Any = None  # how far the export came, if there is something to show

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
    code = "HX200"
    exit_code = 2


class TargetError(UsageError):
    code = "HX201"


class SpecError(UsageError):
    code = "HX202"


class InputError(UsageError):
    code = "HX203"


class OutputError(UsageError):
    code = "HX204"


class CertificateError(UsageError):
    code = "HX205"


class ExportError(HxError):
    code = "HX101"
    exit_code = 1


class ConverterError(ExportError):
    code = "HX102"


class BuilderError(ConverterError):
    code = "HX103"


class Unsupported(ExportError):
    code = "HX104"


class Differentiates(Unsupported):
    """Refusal of a model that asks for derivatives as it runs."""

    code = "HX105"


class Unaccounted(ExportError):
    code = "HX106"


class EscapeError(ExportError):
    code = "HX107"


class ImportFailed(ExportError):
    code = "HX108"


class ModelFailed(ExportError):
    code = "HX109"


class MissingConverters(ExportError):
    """Calls without converters; `missing` holds one record per target."""

    exit_code = 5
    code = "HX500"

    def __init__(self, what: str, missing: list, **parts) -> None:
        super().__init__(what, **parts)
        self.missing = missing


class MissingDependency(HxError):
    code = "HX110"


class VerificationError(HxError):
    exit_code = 4
    code = "HX400"

    def __init__(self, what: str, *, proof=None, **parts) -> None:
        super().__init__(what, **parts)
        self.proof = proof


class NotCertified(VerificationError):
    code = "HX401"


class PackError(HxError):
    code = "HX300"
    exit_code = 3


def is_environment_error(problem: Exception) -> bool:
    """Return whether an error is a full disk or the like, or a model that was not restored.

    Such an error is reported, whatever came before.
    """
    if isinstance(problem, HxError) and isinstance(problem.__cause__, OSError):
        return True
    return type(problem) is ExportError and not isinstance(problem.__cause__, SystemExit)
