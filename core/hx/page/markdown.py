"""Markdown form of a report, for a pull request or a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hx.budget import BUDGET
from hx.page.data import strain
from hx.page.phrases import edge, line_of, place, share, verdict, why
from hx.page.strategy_table import PAGE_HEADS, page_rows
from hx.text import bytes_text, first_few, relative_paths, rounded, time_text


def text(found: dict[str, Any]) -> str:
    """Return the whole report."""
    parts = (
        _head,
        _findings,
        _contents,
        _proof,
        _missing,
        _modules,
        _worst_nodes,
        _conversions,
        _strategies,
        _packs,
        _foot,
    )
    return "\n".join(line for part in parts for line in part(found)) + "\n"


def _head(found: dict[str, Any]) -> list[str]:
    state, rest = verdict(found)
    reasons = [f"- `{line}`" for line in why(found)]
    return [f"# {found['title']}", "", f"**{state}** {rest}", "", *reasons]


def _findings(found: dict[str, Any]) -> list[str]:
    rows = [
        [e["level"], relative_paths(e["text"]), e["hint"], f"`{line_of(e)}`" if e["file"] else ""]
        for e in found["findings"]
    ]
    lines = _section("Findings", ["level", "what", "what to do", "line"], rows)
    return [*lines, ""] if rows else []


def _contents(found: dict[str, Any]) -> list[str]:
    """Return the size of the graph, its inputs and its outputs."""
    if not found["nodes"]:
        return []
    where = found["path"] or "in memory"
    lines = [
        f"{found['nodes']:,} nodes and {found['initializers']:,} weights, opset "
        f"{found['opset']}, {bytes_text(found['size'])}, {where}.",
        "",
    ]
    for kind in ("inputs", "outputs"):
        lines += [f"- {kind[:-1]} `{edge(each)}`" for each in found[kind]]
    return lines


def _proof(found: dict[str, Any]) -> list[str]:
    cases = found["proof"]["cases"] if found["proof"] is not None else []
    rows = [
        [
            case["name"],
            output["name"],
            share(output["max_rel"]) if output["allowed"] else "",
            share(output["allowed"]) if output["allowed"] else "",
            relative_paths(output["problem"]) or "right",
        ]
        for case in cases
        for output in case["outputs"]
    ]
    lines = _section("Proof", ["inputs", "output", "max error", "limit", ""], rows)
    rows = [[case["name"], relative_paths(case["problem"])] for case in cases if case["problem"]]
    return lines + _section("What could not be compared", ["inputs", "why"], rows)


def _missing(found: dict[str, Any]) -> list[str]:
    rows = [
        [f"`{m['target']}`", str(m["count"]), _places(m["places"]), ", ".join(m["nearest"]),
         f"`{m['command']}`" if m["command"] else f"its converter declined: {m['declined']}"]
        for m in found["missing"]
    ]  # fmt: skip
    heads = ["target", "calls", "where", "nearest", "write one"]
    return _section("Without a converter", heads, rows)


def _modules(found: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"`{row['path'] or found['title']}`",
            row["kind"],
            rounded(row["parameters"]) if row["parameters"] else "",
            str(row["nodes"]),
            "" if row["seconds"] is None else time_text(row["seconds"]),
            row["problem"] or ("" if row["error"] is None else share(row["error"])),
        ]
        for row in found["modules"]
        if row["depth"] <= BUDGET.shown.module_levels
    ]
    heads = ["module", "class", "parameters", "nodes", "time", "max error"]
    return _section("Modules", heads, rows)


def _worst_nodes(found: dict[str, Any]) -> list[str]:
    worst = sorted((n for n in found["nodes_by_name"] if n["error"] or n["problem"]), key=strain)
    rows = [
        [f"`{n['name']}`", n["problem"] or share(n["error"]), share(n["allowed"] or 0),
         f"`{n['target']}`", f"`{place(n['source'])}`"]
        for n in reversed(worst[-BUDGET.shown.worst_nodes:])
    ]  # fmt: skip
    heads = ["node", "error", "limit", "call", "line"]
    return _section("Nodes with the largest errors", heads, rows)


def _conversions(found: dict[str, Any]) -> list[str]:
    rows = [[f"`{t}`", "its converter declined", str(n)] for t, n in found["declined"].items()]
    rows += [
        [f"`{c['target']}`", f"a cast was put in at `{place(c['source'])}`", str(c["count"])]
        for c in found["casts"]
    ]
    return _section("Conversions by converters", ["call", "what", "times"], rows)


def _strategies(found: dict[str, Any]) -> list[str]:
    if not found["strategies"]:
        return []
    return _section("Time", PAGE_HEADS, page_rows(found))


def _packs(found: dict[str, Any]) -> list[str]:
    versions = {each["pack"]: each["version"] for each in found["packs_installed"]}
    rows = [[name, versions.get(name, ""), str(n)] for name, n in found["packs"].items()]
    return _section("Packs", ["pack", "version", "nodes"], rows)


def _foot(found: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    command = f", by `{found['command']}`" if found["command"] else ""
    return ["", f"{versions}.", found["date"] + command]


def _places(places: list[dict[str, Any]]) -> str:
    return first_few([f"`{line_of(w)}`" for w in places], 3)


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    if not rows:
        return []
    lines = ["", f"## {title}", "", _line(heads), _line(["---"] * len(heads))]
    return [*lines, *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
