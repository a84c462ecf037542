"""What an export did, in a screen at most: what the command line prints, and `print(report)`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .words import amount, bytes_text


def lines(
    report: Any, path: str | os.PathLike | None, reports: Sequence[Path] = ()
) -> list[tuple[str, str]]:
    """(name, value) of each fact; what is empty is not to be shown."""
    file = ""
    if path is not None:
        beside = f", weights in {Path(report.data_path).name}" if report.data_path else ""
        file = f"{os.fspath(path)} ({bytes_text(report.size)}{beside})"
    return [
        ("file", file),
        ("inputs", _edges(report.inputs)),
        ("outputs", _edges(report.outputs)),
        ("graph", _graph(report)),
        ("packs", ", ".join(f"{name} ({amount(n, 'node')})" for name, n in report.packs.items())),
        ("missing", "\n".join(each.target for each in report.missing[:5]) + _more(report.missing, 5)),
        ("buffers", _changed(report.changed_buffers)),
        ("escapes", _escapes(report.escapes)),
        ("right for", f"{', '.join(report.promised.values())} only" if report.promised else ""),
        ("baked in", "\n".join(report.baked)),
        ("note", "\n".join(report.notes[:5]) + _more(report.notes, 5)),
        ("time", _times(report.timings)),
        ("report", ", ".join(map(str, reports))),
        ("proof", report.proof.summary() if report.proof else "not verified" * bool(report.nodes)),
    ]  # fmt: skip


def outcome(report: Any) -> tuple[str, bool]:
    """`ok`, and with what reservation; nothing where nothing was proved right."""
    if report.proof is None or not report.proof.ok:
        return "", False
    lost = sum(not escape.carried for escape in report.escapes)
    but = [f"{amount(lost, 'line')} where values left the graph"] if lost else []
    drawn = report.proof.random
    but += [f"{amount(len(drawn), 'random output')} that nobody compared"] if drawn else []
    but += [f"{amount(len(report.baked), 'constant')} that sizes change"] if report.baked else []
    text = f"ok for {', '.join(report.promised.values())} only" if report.promised else "ok"
    return text + (f", with {' and '.join(but)}" if but else ""), bool(but)


def text(report: Any) -> str:
    said, _ = outcome(report)
    told = [f"{name}  {value}" for name, value in aligned(lines(report, report.path))]
    return "\n".join([*told, *([said] if said else [])])


def aligned(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Names of one width, and values whose lines stand under one another; none that are empty."""
    shown = [(name, str(value)) for name, value in pairs if value not in (None, "", [], ())]
    size = max((len(name) for name, _ in shown), default=0)
    indent = "\n" + " " * (size + 2)
    return [(name.ljust(size), value.replace("\n", indent)) for name, value in shown]


def _graph(report: Any) -> str:
    if not report.nodes:  # only looked at
        return ""
    nodes, weights = amount(report.nodes, "node"), amount(report.initializers, "initializer")
    return f"{nodes}, {weights}, opset {report.opset}"


def _edges(edges: list[dict[str, Any]], most: int = 8) -> str:
    return "\n".join(_edge(edge) for edge in edges[:most]) + _more(edges, most)


def _edge(edge: dict[str, Any]) -> str:
    dims = ",".join("?" if dim is None else str(dim) for dim in edge.get("shape") or ())
    dtype = {"float": "float32", "double": "float64"}.get(edge["dtype"], edge["dtype"])
    return f"{edge['name']} {dtype}[{dims}]"


def _more(items: list[Any], shown: int) -> str:
    return f"\nand {len(items) - shown} more" if len(items) > shown else ""


def _changed(names: list[str]) -> str:
    told = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"the model changes {told}; the graph does not keep that" if names else ""


def _escapes(escapes: list[Any]) -> str:
    lost = [escape for escape in escapes if not getattr(escape, "carried", False)]
    return "\n".join(str(escape) for escape in lost[:5]) + _more(lost, 5)


def _times(timings: dict[str, float]) -> str:
    total = timings.get("total", sum(timings.values()))
    parts = [f"{name} {t:.2f}" for name, t in timings.items() if name != "total" and t >= 0.005]
    return f"{total:.2f} s" + (f" ({', '.join(parts)})" if parts else "")
