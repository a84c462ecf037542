"""Certificates on the command line: `hx export --certificate`, `hx verify --certificate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hx.cli import options as o

if TYPE_CHECKING:
    from hx.program import Program
    from hx.proof.certificates.recheck import Recheck
    from hx.proof.certificates.sealing import Document


@dataclass(frozen=True)
class Plan:
    """Certificates that an export is to write: one, or none."""

    paths: list[Path]
    key: bytes | None = None

    def write(self, program: Program, progress: Callable[[str], None]) -> str:
        """Write the certificate of an export, and describe it in a few words."""
        for path in self.paths:
            progress("writing the certificate")
            return _written(program, path, self.key)
        return ""


def certificate_plan(path: Path | None, key: Path | None, output: Path, verify: bool) -> Plan:
    """Check the options before the export starts."""
    from hx.cli.destination_options import check_output
    from hx.errors import OutputError, UsageError
    from hx.proof.certificates.sealing import read_key

    if path is None and key is None:
        return Plan([])
    if path is None:
        raise UsageError("--sign-with goes with --certificate only", hint="add --certificate")
    if not verify:
        raise UsageError(
            "--certificate records the proof, and --no-verify leaves it out",
            hint="leave out one of them",
        )
    if path == Path("auto"):
        path = output.with_name(f"{output.stem}.certificate.json")
    if path.suffix.lower() != ".json":
        raise OutputError(f"--certificate {path}: a certificate ends in .json")
    return Plan([check_output(path, "--certificate")], None if key is None else read_key(key))


def _written(program: Program, path: Path, key: bytes | None) -> str:
    from hx.errors import HxError
    from hx.proof.certificates.certify import describe
    from hx.proof.certificates.sealing import read
    from hx.text import bytes_text

    try:
        program.certify(path, key)
    except HxError as problem:
        there = f"the graph is there: {program.report.path}"
        problem.hint = "; ".join(filter(None, [problem.hint, there]))
        raise
    signed = ", signed" if key else ""
    size = bytes_text(path.stat().st_size)
    return f"{path} ({describe(read(path, key)[0])}, {size}{signed})"


def with_file(words: list[str]) -> list[str]:
    """Fill in `auto` where `--certificate` of an export names no file, as typer wants a value."""
    if "--certificate" not in words:
        return words
    after = words.index("--certificate") + 1
    named = words[after : after + 1] and words[after].endswith((".json", "auto"))
    return words if named else [*words[:after], "auto", *words[after:]]


def verify_certified(
    context: typer.Context, file: Path, certificate: Path, key: Path | None, json: bool
) -> None:
    """Compare a file with its certificate; exit code 4 says that it is another file."""
    from hx.cli.output import Progress, as_json, complain, note, paint, say_prose
    from hx.errors import NotCertified, UsageError
    from hx.proof.certificates.recheck import recheck
    from hx.proof.certificates.sealing import read, read_key
    from hx.weights.tensor_files import absent

    _require_alone(context)
    for path in (file, certificate):
        if not path.is_file():
            swapped = "the order is: hx verify --certificate CERTIFICATE FILE"
            raise UsageError(absent(path), hint=swapped)
    document, signed = read(certificate, None if key is None else read_key(key))
    with Progress() as progress:
        found = recheck(document, file, progress)
    error = None if found.ok else NotCertified(*_told(found, file))
    if json:
        parts: dict[str, Any] = {"ok": found.ok, "file": str(file), "certificate": str(certificate)}
        parts |= {"signed": signed, "key_checked": key is not None, **found.to_dict()}
        if error is not None:
            parts["error"] = {"code": error.code, "what": error.what, "why": error.why}
        as_json("verify", **parts)
    elif error is None:
        for line in _lines(document, found, file):
            say_prose(line)
    if signed and key is None and not json:
        note("the certificate is signed; --key KEY checks the signature")
    if error is not None:
        complain(str(error), error.code)
        raise typer.Exit(error.exit_code)
    if not json:
        note(paint("ok", "green"))


def _require_alone(context: typer.Context) -> None:
    """Raise if an option is given that only makes sense with a model."""
    allowed = ("file", "certificate", "key", "json")
    for name in o.given(context):
        if name not in allowed:
            from hx.errors import UsageError

            word = "SPEC" if name == "spec" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{word} is about a model, and --certificate compares the file without one",
                hint="leave out one of them",
            )


def _told(found: Recheck, file: Path) -> tuple[str]:
    """Return the message about a file that is not as certified."""
    wrong = [case for case in found.cases if not case.ok]
    lines = [f"{file} is not the certified file", *found.changed]
    if found.problem:
        lines.append(f"onnxruntime refuses it: {found.problem.splitlines()[0]}")
    for case in wrong[:1]:
        lines += [f"{case.name} inputs: {case.problem.splitlines()[0]}"] if case.problem else []
        lines += [f"{case.name} inputs: {o.name}: {o.problem}" for o in case.outputs if o.problem]
    if len(wrong) > 1:
        lines.append(f"wrong on {len(wrong)} of {len(found.cases)} input sets")
    elif found.cases and not wrong:
        lines.append(f"its results are those of the certificate, on {len(found.cases)} input sets")
    return ("\n  ".join(lines),)


def _lines(document: Document, found: Recheck, file: Path) -> list[str]:
    beside = len(document["file"]["data"])
    data = f", and {beside} data file{'s' * (beside > 1)}" if beside else ""
    lines = [f"{file} has the certified bytes: sha256 {document['file']['sha256'][:16]}...{data}"]
    worst = found.worst
    error = "all equal"
    if worst is not None:
        size = worst.size or 1.0
        error = f"max error {worst.error / size:.0e} (limit {worst.limit / size:.0e})"
    sizes = [f"{name} {low} to {high}" for name, (low, high) in document["sizes"].items()]
    lines.append(", ".join([f"compared on {len(found.cases)} input sets: {error}", *sizes]))
    sampled = sorted({o.name for case in found.cases for o in case.outputs if o.sampled})
    if sampled:
        lines.append(f"of {', '.join(sampled)} a sample of the elements is compared")
    if document["promised"]:
        lines.append(f"right for {', '.join(document['promised'].values())} only")
    left = ", ".join(f"{count} {why}" for why, count in document["left_out"].items())
    if left:
        lines.append(f"input sets that are not in the certificate: {left}")
    return lines
