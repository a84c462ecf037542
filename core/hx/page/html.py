"""Report page: one HTML file without scripts, with its style in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hx.budget import BUDGET
from hx.page import chart
from hx.page.data import strain
from hx.page.phrases import edge, line_of, place, share, verdict, why
from hx.page.strategy_table import PAGE_HEADS, page_rows
from hx.proof.proof import inputs_of
from hx.text import amount, bytes_text, relative_paths, rounded, time_text

HERE = Path(__file__).parent


def page(found: dict[str, Any]) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_file("report.html.jinja"))
    return template.render(
        css=jinja2.utils.markupsafe.Markup(_file("page.css")),
        chart=jinja2.utils.markupsafe.Markup(_chart(found)),
        title=found["title"],
        state=found["state"],
        verdict=verdict(found),
        why=why(found),
        findings=_findings(found),
        missing=[_missing(each) for each in found["missing"]],
        figures=_figures(found),
        strategies=_strategies(found),
        edges=[
            [kind[:-1], edge(each)] for kind in ("inputs", "outputs") for each in found[kind][:16]
        ],
        proof=_proof(found["proof"]),
        worst=_worst(found["nodes_by_name"]),
        modules=_modules(found),
        casts=[
            [each["target"], f"a cast was put in at {place(each['source'])}", each["count"]]
            for each in found["casts"]
        ]
        + [
            [target, "its converter declined: the calls inside were asked", count]
            for target, count in found["declined"].items()
        ],
        packs=_packs(found),
        versions=list(found["versions"].items()),
        called=sorted(found["converters"].items(), key=lambda item: (-item[1], item[0])),
        date=found["date"],
        command=found["command"],
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _findings(found: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    levels: dict[str, list[dict[str, str]]] = {"open": [], "checked": [], "followed": []}
    for each in found["findings"]:
        levels[each["level"]].append(
            {
                "text": relative_paths(each["text"]),
                "place": line_of(each) if each["file"] else "",
                "hint": each["hint"],
            }
        )
    return levels


def _missing(each: dict[str, Any]) -> dict[str, Any]:
    shown = each["places"][: BUDGET.shown.places]
    return {
        **each,
        "calls": amount(each["count"], "call"),
        "places": [" ".join([line_of(w), w["scope"], ", ".join(w["inputs"])]) for w in shown],
        "nearest": ", ".join(each["nearest"]),
    }


def _figures(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    compared = sum(node["error"] is not None for node in found["nodes_by_name"])
    root = next((row for row in found["modules"] if not row["path"]), None)
    total = found["timings"].get("total", sum(found["timings"].values()))
    figures: list[tuple[str, str, str]] = []
    if found["nodes"]:
        figures += [
            ("Nodes", f"{found['nodes']:,}", f"{compared:,} compared with the model"),
            ("Weights", f"{found['initializers']:,}", bytes_text(found["size"])),
        ]
    if root is not None and root["parameters"]:
        modules = amount(len(found["modules"]), "module")
        figures.append(("Parameters", rounded(root["parameters"]), modules))
    written = found["state"] in ("verified", "unverified")
    where = Path(found["path"]).name if found["path"] else "in memory"
    figures.append(("Opset", str(found["opset"]), where if written else "no file was written"))
    if total:
        figures.append(("Export", time_text(total), _slowest(found["timings"])))
    return figures


def _strategies(found: dict[str, Any]) -> dict[str, Any] | None:
    """Show all of the time: of each strategy, and outside of them."""
    if not found["strategies"]:
        return None
    count = len(found["strategies"])
    return {
        "title": f"{amount(count, 'strategy', 'strategies')} in "
        + time_text(found["timings"]["total"]),
        "heads": PAGE_HEADS,
        "rows": page_rows(found),
    }


def _slowest(timings: dict[str, float]) -> str:
    parts = [(t, name) for name, t in timings.items() if name != "total"]
    return ", ".join(f"{name} {time_text(t)}" for t, name in sorted(parts, reverse=True)[:2])


def _proof(proof: dict[str, Any] | None) -> dict[str, Any] | None:
    """Show the proof: failures first, alike ones once; then the comparisons that are right."""
    if proof is None:
        return None
    failures: dict[tuple[str, str], dict[str, Any]] = {}
    inputs: dict[tuple[str, str], list[str]] = {}
    right: list[list[str]] = []
    outside = [case["name"] for case in proof["cases"] if case["outside"]]
    for case in proof["cases"]:
        if case["outside"] or case["by_parts"] or case["by_runtime"]:
            continue  # a finding reports it
        if case["problem"]:
            key = "", _without_numbers(case["problem"])
            problem = relative_paths(case["problem"])
            failures.setdefault(key, {"problem": problem, "output": "", "error": ""})
            inputs.setdefault(key, []).append(case["name"])
        for output in case["outputs"]:
            result = f"{output['name']} {output['dtype']}"
            if not output["problem"]:
                error = share(output["max_rel"]) if output["allowed"] else "equal"
                limit = share(output["allowed"]) if output["allowed"] else ""
                shape = f"{result}{output['shape']}"
                right.append([case["name"], shape, error, limit, time_text(case["seconds"])])
                continue
            key = result, _without_numbers(output["problem"])
            inputs.setdefault(key, []).append(case["name"])
            known = failures.setdefault(
                key,
                {"problem": output["problem"], "output": result, "error": "", "worst": -1.0},
            )
            if output["allowed"] and output["max_rel"] > known["worst"]:
                known["worst"], known["error"] = output["max_rel"], share(output["max_rel"])
                known["limit"] = share(output["allowed"])
    return {
        "runtime": proof["runtime"] or "no runtime",
        "problems": [relative_paths(proof[key]) for key in ("checker", "problem") if proof[key]],
        "failures": [{**each, "inputs": inputs_of(inputs[key])} for key, each in failures.items()],
        "right": right,
        "outside": inputs_of(outside),
    }


def _without_numbers(text: str) -> str:
    """Return the part of a message that is the same at all sizes: `broadcast 6 by 7` and `6 by 28`."""
    return re.sub(r"\d+", "", text)


def _chart(found: dict[str, Any]) -> str:
    nodes = [n for n in found["nodes_by_name"] if n["error"] is not None or n["problem"]]
    return chart.by_depth(found["nodes_by_name"]) if len(nodes) > 1 else ""


def _worst(nodes: Iterable[dict[str, Any]]) -> list[list[str]]:
    off = sorted((n for n in nodes if n["error"] or n["problem"]), key=strain, reverse=True)
    return [
        [n["name"], n["problem"] or share(n["error"]), share(n["allowed"] or 0), n["target"],
         place(n["source"])]
        for n in off[:BUDGET.shown.worst_nodes]
    ]  # fmt: skip


def _modules(found: dict[str, Any]) -> dict[str, Any] | None:
    """Show the tree of modules, from its root."""
    rows = found["modules"]
    if len(rows) < 2:
        return None
    tree: dict[str, dict[str, Any]] = {}
    for row in rows:
        path = row["path"]
        above, _, own = path.rpartition(".")
        used = strain(row)
        off = bool(row["problem"])
        tree[path] = {
            "path": path,
            "name": own or found["title"],
            "kind": row["kind"] if path else "",
            "depth": row["depth"],
            "output": row["output"],
            "parameters": rounded(row["parameters"]) if row["parameters"] else "",
            "nodes": row["nodes"] or "",
            "time": "not run" if row["seconds"] is None else time_text(row["seconds"]),
            "error": "off" if off else "" if row["error"] is None else share(row["error"]),
            "part": round(100 * min(used, 1.0)),
            "colour": "bad" if off else "good" if used < 0.5 else "warn",
            "below": [],
        }
        if path:
            tree[above]["below"].append(tree[path])
    return tree[""]


def _packs(found: dict[str, Any]) -> list[list[str]]:
    installed = {each["pack"]: each for each in found["packs_installed"]}
    return [
        [
            name,
            installed.get(name, {}).get("version", ""),
            f"{found['packs'].get(name, 0):,}",
            installed.get(name, {}).get("status", "by hand"),
        ]
        for name in dict.fromkeys([*found["packs"], *installed])
    ]
