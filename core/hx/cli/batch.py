"""`hx export --batch LIST`: many models, one table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import typer

from hx import batch

OURS = ("batch", "jobs", "again", "json", "quiet")  # the options that go with a list


def run_list(context: Any, path: Path, jobs: int, again: bool, json: bool, quiet: bool) -> NoReturn:
    """Exports every model of a list, and ends with the exit code of the worst."""
    from hx.cli.output import Progress, as_json, table

    _nothing_else(context)
    entries = batch.read(path, options(context.command.params))
    with Progress(not quiet) as progress:
        results = batch.run(
            entries,
            batch.Notes(path),
            jobs,
            again,
            tell=_teller(progress, quiet),
            progress=progress,
        )
    code = batch.worst(results)
    if json:
        as_json("export", ok=not code, exit_code=code, models=[_data(each) for each in results])
    elif not quiet:
        states = {"ok": "green", "done before": "dim", "failed": "red", "stopped": "yellow"}
        table(
            ["model", "state", "nodes", "size", "time", "proof"],
            [_row(result) for result in results],
            by_value=states,
            shrink=[5, 0],
        )
    raise typer.Exit(code)


def options(params: Any) -> dict[str, batch.Option]:
    """What a list may say: the options of the command but for those that go with a list."""
    from hx.cli.export import export

    hints, found = get_type_hints(export), {}
    for each in params:
        words = [word for word in each.opts if word.startswith("--")]
        if not words or each.name in (*OURS, "output", "help"):
            continue
        kind = bool if each.is_flag else int if hints[each.name] is int else str
        no = each.secondary_opts[0] if each.secondary_opts else ""
        found[words[0].removeprefix("--")] = batch.Option(words[0], kind, each.multiple, no)
    return found


def _nothing_else(context: Any) -> None:
    from hx.errors import UsageError

    for each in context.command.params:
        source = context.get_parameter_source(each.name)
        if each.name not in OURS and source is not None and source.name == "COMMANDLINE":
            word = each.opts[0] if each.opts[0].startswith("-") else "SPEC"
            raise UsageError(
                f"{word} does not go with --batch",
                hint="write it in the list: under a [[model]], or above the first for all",
            )


def _teller(progress: Any, quiet: bool) -> Any:
    from hx.cli.output import note, paint

    def tell(result: batch.Result) -> None:
        import sys

        if result.state == "done before" or (quiet and result.state == "ok"):
            return
        progress.wipe()
        colour = "green" if result.state == "ok" else "red"
        state = paint(result.state, colour, sys.stderr)
        note(f"{state} {result.entry.output.name} ({result.seconds:.1f} s)")
        if result.why:
            first, *more_lines = result.why.splitlines()
            note(f"  {first}")
            for line in more_lines[:1]:  # which target, or on which inputs
                if not re.match(r"  (where|why|hint): ", line):
                    note(f"  {line}")
            error = result.data.get("error") or {}
            for label in ("where", "why", "hint"):
                if more := _line(error.get(label)):
                    note(f"  {label + ':':<6} {more}")
            note(f"  {result.entry.place}")

    return tell


def _line(said: Any) -> str:
    """The first line of it; of a place, its file and line."""
    if isinstance(said, dict):
        said = f"{said['file']}:{said['line']}" if said.get("file") else ""
    return str(said or "").partition("\n")[0]


def _row(result: batch.Result) -> list[str]:
    from hx.words import bytes_text

    report = result.data.get("report") or {}
    size = bytes_text(report["size"]) if report else ""
    spent = f"{result.seconds:.1f} s" if result.seconds else ""
    proof = _proof(report) if report else (result.why.splitlines() or [""])[0]
    name = result.entry.output.name
    return [name, result.state, str(report.get("nodes", "")), size, spent, proof]


def _proof(report: dict[str, Any]) -> str:
    proof = report.get("proof")
    if proof is None:
        return "not verified"
    if proof.get("not_run"):
        return f"not run: {proof['not_run']}"
    errors = [o["max_rel"] for case in proof["cases"] for o in case["outputs"]]
    return f"verified, error {max(errors, default=0.0):.1e}"


def _data(result: batch.Result) -> dict[str, Any]:
    entry = result.entry
    return {
        "spec": entry.spec,
        "output": str(entry.output),
        "place": entry.place,
        "state": result.state,
        "exit_code": result.code,
        "seconds": round(result.seconds, 3),
        "why": result.why,
        "report": result.data.get("report"),
        "error": result.data.get("error"),
    }
