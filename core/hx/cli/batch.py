"""`hx export --batch LIST`: exports many models, prints one table."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer

from hx.batch import engines, models_list, results, run_list
from hx.batch.results import Result
from hx.cli import options as o

# The options that go with a list.
OURS = ("batch", "on", "jobs", "again", "sort", "fields", "report", "json", "verbose", "quiet")
COLUMNS = ("output", "state", "nodes", "size", "seconds", "proof")


def export_list(
    context: Any,
    path: Path,
    on: str,
    jobs: int,
    again: bool,
    sort: str | None,
    fields: str | None,
    reports: Sequence[Path],
    json: bool,
    quiet: bool,
) -> NoReturn:
    """Export every model of a list, and end with the exit code of the worst."""
    from hx.cli.output import Progress, as_json, note

    _nothing_else(context)
    columns = _columns(fields)
    if sort:
        results.ordered((), sort)
    reports = [_check_report(each) for each in reports]
    entries = models_list.read_list(path, options(context.command.params))
    executor, address = _engine(on)
    plan = run_list.Plan(path, "hx.cli.warm_export", executor, address, jobs, again)
    with Progress(not quiet) as progress, _stoppable() as stopped:
        teller = _Teller(len(entries), progress, quiet)
        found = run_list.run(entries, plan, teller, stopped, teller.look)
    code = results.worst(found)
    groups = results.groups(found)
    for each in reports:
        _write_report(found, groups, path, each)
    shown = results.ordered(found, sort) if sort else found
    if json:
        as_json(
            "export",
            ok=not code,
            exit_code=code,
            models=[each.to_json() for each in shown],
            missing_converters=[each.to_json() for each in groups if each.converter],
            causes=[each.to_json() for each in groups if not each.converter],
        )
    elif not quiet:
        _table(shown, columns)
        for group in groups if sum(each.state == "failed" for each in found) > 1 else ():
            what = f"no converter for {group.cause}" if group.converter else group.cause
            note(f"{len(group.models)} failed: {what}")
    raise typer.Exit(code)


def _engine(on: str) -> tuple[engines.Executor, str]:
    from hx.packs.registry import Registry

    name, address = engines.split(on)
    given = [] if name == "local" else Registry.standing().executors
    return engines.named(name, given), address


def _columns(fields: str | None) -> Sequence[str]:
    from hx.errors import UsageError

    columns = [each.strip() for each in fields.split(",")] if fields else COLUMNS
    for each in columns:
        if each not in (*results.FIELDS, *COLUMNS):
            known = ", ".join(dict.fromkeys((*results.FIELDS, *COLUMNS)))
            raise UsageError(f"--fields: there is no field {each!r}", hint=f"fields are {known}")
    return columns


def _check_report(path: Path) -> Path:
    from hx.cli.destination_options import check_report

    check_report(path, (".html", ".json", ".parquet"), "of a list, ")
    if path.suffix.lower() == ".parquet":
        results.require_pyarrow(path)
    return path


def _write_report(
    found: Sequence[Result], groups: Sequence[results.Group], listed: Path, path: Path
) -> None:
    import json

    from hx.batch.models_page import page

    if path.suffix.lower() == ".parquet":
        results.write_parquet(found, path)
    elif path.suffix.lower() == ".json":
        rows = [each.to_json() for each in found]
        path.write_text(json.dumps({"schema": 1, "models": rows}, indent=2), encoding="utf-8")
    else:
        path.write_text(page(listed.name, found, groups, path.absolute().parent), encoding="utf-8")


@contextlib.contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C and SIGTERM; yield a function that returns whether one came."""
    caught: list[int] = []
    before = {}
    for name in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not in the main thread: no signals arrive
            before[name] = signal.signal(name, lambda number, frame: caught.append(number))
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def options(params: Any) -> dict[str, models_list.Option]:
    """Return the options of the command that a list may set for its models."""
    found = {}
    for each in params:
        words = [word for word in each.opts if word.startswith("--")]
        if not words or each.name in (
            "output",
            "help",
            *(name for name in OURS if name != "report"),
        ):
            continue
        kind = bool if each.is_flag else int if type(each.default) is int else str
        off = each.secondary_opts[0] if each.secondary_opts else ""
        found[words[0].removeprefix("--")] = models_list.Option(words[0], kind, each.multiple, off)
    return found


def _nothing_else(context: Any) -> None:
    from hx.errors import UsageError

    known = {each.name: each for each in context.command.params}
    for name in o.given(context):
        if name not in OURS:
            each = known[name]
            word = each.opts[0] if each.opts[0].startswith("-") else "SPEC"
            raise UsageError(
                f"{word} does not go with --batch",
                hint="write it in the list: under a [[model]], or above the first for all",
            )


class _Teller:
    """Printer of results as they come, with a count in between."""

    def __init__(self, models: int, progress: Any, quiet: bool) -> None:
        self.models = models
        self.ended = 0
        self.progress = progress
        self.quiet = quiet

    def look(self) -> None:
        self.progress(f"{self.ended} of {self.models} models")

    def __call__(self, result: Result) -> None:
        import sys

        from hx.cli.output import note, paint

        self.ended += 1
        silent = ("done before", "not started") + (("ok",) if self.quiet else ())
        if result.state in silent:
            return
        self.progress.wipe()
        state = paint(result.state, "green" if result.state == "ok" else "red", sys.stderr)
        tries = f", {len(result.starts)} tries" if len(result.starts) > 1 else ""
        note(f"{state} {result.entry.output.name} ({result.seconds:.1f} s{tries})")
        if result.why:
            _tell_why(result)


def _tell_why(result: Result) -> None:
    from hx.cli.output import note

    first, *more_lines = result.why.splitlines()
    note(f"  {first}")
    for line in more_lines[:1]:  # which target, or on which inputs
        if not re.match(r"  (where|why|hint): ", line):
            note(f"  {line}")
    for label in ("where", "why", "hint"):
        if more := _line(result.error.get(label)):
            note(f"  {label + ':':<6} {more}")
    note(f"  {result.entry.place}")


def _line(said: Any) -> str:
    """Return the first line of a text; of a place, its file and line."""
    if isinstance(said, dict):
        said = f"{said['file']}:{said['line']}" if said.get("file") else ""
    return str(said or "").partition("\n")[0]


def _table(shown: Sequence[Result], columns: Sequence[str]) -> None:
    from hx.cli.output import table

    heads = [{"output": "model", "seconds": "time"}.get(name, name) for name in columns]
    states = {"ok": "green", "done before": "dim", "failed": "red", "stopped": "yellow"}
    shrink = [i for name in ("why", "proof", "spec", "place", "output")
              for i, column in enumerate(columns) if column == name]  # fmt: skip
    rows = [[_cell(result, name) for name in columns] for result in shown]
    table(heads, rows, by_value=states, shrink=shrink)


def _cell(result: Result, name: str) -> str:
    from hx.text import bytes_text

    if name == "proof":
        return _proof(result)
    value = result.row()[name]
    if name == "size" and value is not None:
        return bytes_text(value)
    if name == "seconds":
        return f"{value:.1f} s" if value else ""
    if name == "max_error" and value is not None:
        return f"{value:.1e}"
    return "" if value is None else str(value)


def _proof(result: Result) -> str:
    if not result.report:
        return result.why.partition("\n")[0]
    proof = result.report.get("proof")
    if proof is None:
        return "not verified"
    return f"verified, error {result.max_error or 0.0:.1e}"
