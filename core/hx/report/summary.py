"""Summary of an export, as the command line and `print(report)` show it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..budget import BUDGET
from ..findings import CHECKED, FOLLOWED, OPEN
from ..ir.proposed_sizes import Proposal, as_options
from ..proof.proof import Proof
from ..text import aligned, amount, bytes_text, relative_paths, tensor_text, torch_dtype
from .report_data import ReportData

Line = tuple[str, str]


def lines(
    report: ReportData,
    path: str | os.PathLike | None,
    reports: Sequence[Path] = (),
    verbose: bool = False,
) -> list[Line]:
    """List names and values of the facts below the open findings; empty values are not shown."""
    found = [
        ("file", _file(report, path)),
        ("inputs", _edges(report.inputs, verbose)),
        ("outputs", _edges(report.outputs, verbose)),
        ("graph", _graph(report)),
        ("missing", _few([each.target for each in report.missing], BUDGET.shown.summary)),
        ("right for", f"{', '.join(report.promised.values())} only" if report.promised else ""),
        *_of_level(report, CHECKED, verbose),
        *_of_level(report, FOLLOWED, verbose),
        ("dynamic", proposed_sizes(report.file.proposed)),
        ("sizes", free_sizes(report)),
        ("report", ", ".join(map(str, reports))),
        ("proof", _proof(report)),
    ]
    times = ("time", _times(report, verbose))
    if verbose:
        packs = ", ".join(f"{name} ({amount(n, 'node')})" for name, n in report.packs.items())
        cases = report.proof.summary() if report.proof is not None else ""
        found += [("packs", packs), ("cases", cases), ("effort", report.spent), times]
    elif len(report.strategies) > 1:
        found.append(times)
    return [(name, relative_paths(value)) for name, value in found]


def open_lines(report: ReportData, verbose: bool = False) -> list[Line]:
    """List the open findings, which come first."""
    return [(name, relative_paths(value)) for name, value in _of_level(report, OPEN, verbose)]


def outcome(report: ReportData) -> tuple[str, bool]:
    """Return `ok`, and whether findings are open; nothing if the file is not proved right."""
    if report.proof is None or not report.proof.ok:
        return "", False
    text = f"ok for {', '.join(report.promised.values())} only" if report.promised else "ok"
    count = sum(each.level == OPEN for each in report.findings)
    return text + (f", with {amount(count, 'open finding')}" if count else ""), bool(count)


def text(report: ReportData) -> str:
    """Return the whole summary, with all findings."""
    said, _ = outcome(report)
    found = [*open_lines(report, True), *lines(report, report.path, verbose=True)]
    shown = [f"{name}  {value}" for name, value in aligned(found)]
    return "\n".join(filter(None, [*shown, strategies(report), said]))


def strategies(report: ReportData, width: int = 80) -> str:
    """Return a table of all strategies, with the rest of the time; "" if there was only one."""
    if len(report.strategies) < 2:
        return ""
    from ..page import strategy_table

    found = [each.to_dict() for each in report.strategies]
    return strategy_table.text(found, report.timings, width)


def html(report: ReportData) -> str:
    """Return the summary as a table for a notebook, which brings its own colours."""
    said, is_open = outcome(report)
    colour = "#b8860b" if is_open else "#2e8b57"
    rows = [*open_lines(report), *lines(report, report.path)]
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-line">{escape(value)}</td></tr>'
        for name, value in rows
        if value
    )
    end = f'<p style="color:{colour}">{escape(said)}</p>' if said else ""
    return f"<table>{cells}</table>{end}"


def proposed_sizes(proposal: Proposal | None) -> str:
    """Return the options for the sizes that hx found, one for each input."""
    if proposal is None:
        return ""
    return as_options(proposal) or "none: every size is fixed"


def free_sizes(report: ReportData) -> str:
    """Return a hint for a user who named no size, or not all that belong together."""
    if not report.nodes or report.file.proposed is not None:
        return ""
    if not report.file.sizes:
        first = next((each for each in report.inputs if each["shape"]), None)
        if first is None:
            return ""
        return f"all sizes are fixed; use `-d {first['name']}:0=batch` to free one"
    words = {size: word for word, size in report.file.sizes.items() if size > 1}
    alike = [
        (each["name"], axis, size)
        for each in report.inputs
        for axis, size in enumerate(each["shape"])
        if type(size) is int and size in words
    ]
    if not alike:
        return ""
    name, axis, size = alike[0]
    word = words[size]
    return (
        f"{name} stays {size} on axis {axis}, and {word} was {size}; if they belong together,\n"
        f"use `-d {name}:{axis}={word}`"
    )


def _of_level(report: ReportData, level: str, verbose: bool) -> list[Line]:
    found = [each for each in report.findings if each.level == level]
    shown = found if verbose else found[: BUDGET.shown.summary]
    if not found:
        return []
    if level == FOLLOWED and not verbose:
        count = amount(len(found), "value or branch", "values or branches")
        return [(level, f"{count} of Python in the graph (--verbose lists them)")]
    if level == CHECKED and not verbose and len(found) > 1:
        shown = [each for each in found if each.differs][: BUDGET.shown.summary]
        count = amount(len(found) - len(shown), "more finding" if shown else "finding")
        rest = [f"{count} (--verbose lists them)"] * (len(shown) < len(found))
        return [(level, "\n".join([*map(str, shown), *rest]))]
    rest = [f"and {len(found) - len(shown)} more (--verbose lists them)"]
    return [(level, "\n".join([*map(str, shown), *rest * (len(shown) < len(found))]))]


def _file(report: ReportData, path: str | os.PathLike | None) -> str:
    if path is None:
        return ""
    beside = f", weights in {Path(report.data_path).name}" if report.data_path else ""
    return f"{os.fspath(path)} ({bytes_text(report.size)}{beside})"


def _graph(report: ReportData) -> str:
    if not report.nodes:  # only scanned
        return ""
    nodes, weights = amount(report.nodes, "node"), amount(report.initializers, "initializer")
    return f"{nodes}, {weights}, opset {report.opset}"


def _proof(report: ReportData) -> str:
    """Summarize the proof: `max error 4e-07 (limit 6e-06), 14 input sets, batch 1 to 131`."""
    proof: Proof | None = report.proof
    if proof is None:
        return "not verified" if report.nodes else ""
    if not proof.ok:
        return proof.summary()
    worst = proof.worst
    if worst is None:
        by_parts = any(case.by_parts for case in proof.cases)
        error = "right part by part" if by_parts else "nothing to compare"
    elif not worst.allowed:
        error = "all outputs equal"
    else:
        most = f"max error {worst.max_rel:.0e}" if worst.max_rel else "no error"
        error = f"{most} (limit {worst.allowed:.0e})"
    sizes = [
        f"{word} {low}" if low == high else f"{word} {low} to {high}"
        for word, (low, high) in proof.sizes.items()
    ]
    count = sum(case.ok and not case.outside for case in proof.cases)
    return ", ".join([error, amount(count, "input set"), *sizes])


def _edges(edges: list[dict[str, Any]], verbose: bool) -> str:
    """Name inputs or outputs: all, or as many as fit on one line."""
    texts = [_edge(edge) for edge in edges]
    count = len(texts) if verbose else BUDGET.shown.summary
    while count > 1 and len(_few(texts, count, ", ")) > BUDGET.shown.line and not verbose:
        count -= 1
    return _few(texts, count, ", ")


def _edge(edge: dict[str, Any]) -> str:
    texts = ["?" if dim is None else str(dim) for dim in edge.get("shape") or ()]
    dims = ["?" if len(text) > BUDGET.shown.size else text for text in texts]
    return f"{edge['name']} {tensor_text(torch_dtype(edge['dtype']), dims)}"


def _few(texts: list[str], count: int, between: str = "\n") -> str:
    rest = [f"and {len(texts) - count} more"] if len(texts) > count else []
    return between.join([*texts[:count], *rest])


def _times(report: ReportData, verbose: bool) -> str:
    """Return the total, and with `verbose` its parts; small ones are in `other`: they add up."""
    timings = report.timings
    total = round(timings.get("total", sum(timings.values())), 2)
    parts = {k: round(t, 2) for k, t in timings.items() if k != "total" and t >= 0.005}
    other = round(total - sum(parts.values()), 2)
    if parts and other > 0:
        parts["other"] = other
    listed = ", ".join(f"{name} {took:.2f}" for name, took in parts.items()) if verbose else ""
    count = len(report.strategies)
    several = f", {amount(count, 'strategy', 'strategies')}" if count > 1 else ""
    return f"{total:.2f} s" + (f" ({listed})" if listed else "") + several
