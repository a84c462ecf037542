"""Results of a list as rows, and as groups of what went wrong, most frequent first."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hx.batch.models_list import Entry
from hx.errors import UsageError

FIELDS = (
    "output", "state", "exit_code", "nodes", "size", "seconds", "max_error", "tries",
    "error_type", "why", "spec", "place",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The row of one model."""

    entry: Entry
    state: str  # ok, failed, done before, stopped, not started
    code: int = 0
    seconds: float = 0.0
    report: Mapping[str, Any] = field(default_factory=dict)  # of an export that is right
    error: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[Mapping[str, Any], ...] = ()  # targets without a converter
    why: str = ""
    starts: tuple[str, ...] = ()  # `HOST PID` of the workers that have started it

    @property
    def max_error(self) -> float | None:
        """The largest relative error of the proof; None if there was no proof."""
        proof = self.report.get("proof")
        if not proof:
            return None
        errors = [o["max_rel"] for case in proof["cases"] for o in case["outputs"]]
        return max(errors, default=0.0)

    def row(self) -> dict[str, Any]:
        """The fields that can be compared, in the order of `FIELDS`."""
        values = (
            self.entry.output.name, self.state, self.code, self.report.get("nodes"),
            self.report.get("size"), round(self.seconds, 3), self.max_error, len(self.starts),
            self.error.get("type", ""), self.why.partition("\n")[0], self.entry.spec,
            self.entry.place,
        )  # fmt: skip
        return dict(zip(FIELDS, values))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.row(),
            "output": str(self.entry.output),
            "why": self.why,
            "workers": list(self.starts),
            "report": self.report or None,
            "error": self.error or None,
            "missing": list(self.missing),
        }


@dataclass(frozen=True)
class Group:
    """Models that failed for one reason."""

    cause: str
    models: tuple[str, ...]
    converter: bool = False  # the cause is a target that has no converter

    def to_json(self) -> dict[str, Any]:
        return {"cause": self.cause, "count": len(self.models), "models": list(self.models)}


def worst(results: Sequence[Result]) -> int:
    """Return the exit code for all models: the largest one, because larger codes are more specific."""
    return max((result.code for result in results), default=0)


def ordered(results: Iterable[Result], by: str) -> list[Result]:
    """Sorted by a field, largest first with a leading `-`; rows without a value come last."""
    name = by.removeprefix("-")
    if name not in FIELDS:
        raise UsageError(f"--sort {by}: there is no such field", hint=f"one of {', '.join(FIELDS)}")
    rows = [(result.row()[name], result) for result in results]
    there = [pair for pair in rows if pair[0] is not None]
    there.sort(key=lambda pair: pair[0], reverse=by.startswith("-"))
    return [result for _, result in (*there, *(pair for pair in rows if pair[0] is None))]


def groups(results: Iterable[Result]) -> list[Group]:
    """Missing converters and other causes, each with its models, most frequent first."""
    found: dict[tuple[bool, str], list[str]] = {}
    for result in results:
        if result.state != "failed":
            continue
        name = result.entry.output.name
        for target in dict.fromkeys(each["target"] for each in result.missing):
            found.setdefault((True, target), []).append(name)
        if not result.missing:
            found.setdefault((False, _cause(result)), []).append(name)
    made = [Group(cause, tuple(names), missing) for (missing, cause), names in found.items()]
    return sorted(made, key=lambda group: (-len(group.models), group.cause))


def _cause(result: Result) -> str:
    """The first line of what went wrong, without what differs from model to model."""
    text = result.why.partition("\n")[0]
    text = text.replace(str(result.entry.output), "FILE").replace(result.entry.output.name, "FILE")
    text = text.replace(result.entry.spec, "SPEC")
    text = re.sub(r"(?<![\w.])(?:\.{0,2}/)[\w./@+-]+", "PATH", text)
    text = re.sub(r"\b0x[0-9a-f]+\b|\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", "N", text)
    kind = result.error.get("type", "")
    return f"{kind}: {text}" if kind and kind not in text else text


def require_pyarrow(path: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"--report {path}: Parquet needs pyarrow, which is not installed",
            hint="pip install pyarrow",
        )


def write_parquet(results: Iterable[Result], path: Path) -> None:
    """Write the rows as a Parquet file; this needs pyarrow."""
    import pyarrow
    from pyarrow import parquet

    rows = [{**result.row(), "output": str(result.entry.output)} for result in results]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
