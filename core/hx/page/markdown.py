"""A report as Markdown, for a pull request or a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hx.page.data import strain
from hx.page.words import edge, line_of, place, seconds, share, size, verdict, why
from hx.words import rounded

DEPTH, WORST = 2, 10  # levels of modules, and nodes, that are listed


def text(found: dict[str, Any]) -> str:
    state, rest = verdict(found)
    lines = [f"# {found['title']}", "", f"**{state}** {rest}", ""]
    lines += [f"- `{line}`" for line in why(found)]
    if found["nodes"]:
        where = found["path"] or "in memory"
        lines += [
            f"{found['nodes']:,} nodes and {found['initializers']:,} weights, opset "
            f"{found['opset']}, {size(found['size'])}, {where}.",
            "",
        ]
        for kind in ("inputs", "outputs"):
            lines += [f"- {kind[:-1]} `{edge(each)}`" for each in found[kind]]
    if found["proof"] is not None:
        rows = [
            [
                case["name"],
                output["name"],
                share(output["max_rel"]) if output["allowed"] else "",
                share(output["allowed"]) if output["allowed"] else "",
                output["problem"] or "right",
            ]
            for case in found["proof"]["cases"]
            for output in case["outputs"]
        ]
        lines += _section("Proof", ["inputs", "output", "largest error", "allowed", ""], rows)
        rows = [
            [case["name"], case["problem"]] for case in found["proof"]["cases"] if case["problem"]
        ]
        lines += _section("What could not be compared", ["inputs", "why"], rows)
    rows = [
        [f"`{m['target']}`", str(m["count"]), _places(m["places"]), ", ".join(m["nearest"]),
         f"`{m['command']}`" if m["command"] else f"its converter declined: {m['declined']}"]
        for m in found["missing"]
    ]  # fmt: skip
    lines += _section(
        "Without a converter", ["target", "calls", "where", "nearest", "write one"], rows
    )
    rows = [
        [
            f"`{row['path'] or found['title']}`",
            row["kind"],
            rounded(row["parameters"]) if row["parameters"] else "",
            str(row["nodes"]),
            "" if row["seconds"] is None else seconds(row["seconds"]),
            row["problem"] or ("" if row["error"] is None else share(row["error"])),
        ]
        for row in found["modules"]
        if row["depth"] <= DEPTH
    ]
    lines += _section(
        "Modules", ["module", "class", "parameters", "nodes", "time", "largest error"], rows
    )
    worst = sorted((n for n in found["nodes_by_name"] if n["error"] or n["problem"]), key=strain)
    rows = [
        [f"`{n['name']}`", n["problem"] or share(n["error"]), share(n["allowed"] or 0),
         f"`{n['target']}`", f"`{place(n['source'])}`"]
        for n in reversed(worst[-WORST:])
    ]  # fmt: skip
    lines += _section(
        "Nodes with the largest errors", ["node", "error", "allowed", "call", "line"], rows
    )
    rows = [
        [e["kind"], "; ".join(filter(None, [e["detail"], e["beyond"]])), str(e["count"]),
         f"`{line_of(e)}`"]
        for e in found["escapes"]
    ]  # fmt: skip
    lines += _section("Values that left the graph", ["how", "what", "times", "line"], rows)
    lines += _section("Sizes baked in", ["what"], [[f"`{each}`"] for each in found["baked"]])
    rows = [[f"`{t}`", "its converter declined", str(n)] for t, n in found["declined"].items()]
    rows += [
        [f"`{c['target']}`", f"a cast was put in at `{place(c['source'])}`", str(c["count"])]
        for c in found["casts"]
    ]
    rows += [[f"`{b}`", "a buffer that the model changes", ""] for b in found["changed_buffers"]]
    rows += [["", note, ""] for note in found["notes"]]
    lines += _section("Dark corners", ["where", "what", "times"], rows)
    versions = {each["pack"]: each["version"] for each in found["packs_installed"]}
    rows = [[name, versions.get(name, ""), str(n)] for name, n in found["packs"].items()]
    lines += _section("Packs", ["pack", "version", "nodes"], rows)
    lines += [
        "",
        ", ".join(f"{name} {version}" for name, version in found["versions"].items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _places(places: list[dict[str, Any]]) -> str:
    shown = [f"`{line_of(w)}`" for w in places[:3]]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(shown) + more


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    if not rows:
        return []
    lines = ["", f"## {title}", "", _line(heads), _line(["---"] * len(heads))]
    return [*lines, *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
