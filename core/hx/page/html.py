"""The page: one HTML file with its style, its script and its data in it.

What can be read without the script (all but the drawn graph) is written as HTML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hx.page import chart
from hx.page.data import strain
from hx.page.layout import Layout
from hx.page.words import edge, line_of, place, seconds, share, size, verdict, why
from hx.words import rounded

HERE = Path(__file__).parent


def page(found: dict[str, Any]) -> str:
    title = found["title"]
    body = [
        _header(found),
        _why(found),
        _figures(found),
        _proof(found),
        _missing(found),
        chart_section(found),
        _graph(found),
        _modules(found),
        _told(found),
        _packs(found),
        f"<footer>hx {escape(found['versions'].get('hx', ''))}. Everything on this page is in this "
        "file.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}, exported</title>\n"
        f"<style>\n{_file('page.css')}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + f'\n</main>\n<script type="application/json" id="data">{_data(found)}</script>\n'
        f"<script>\n{_file('page.js')}</script>\n</body>\n</html>\n"
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _data(found: dict[str, Any]) -> str:
    """What the script draws, short. No `<` stands in it, so that no text can end the element."""
    nodes, ends = found["nodes_by_name"], found["ends"]
    count = len(ends["inputs"]) + len(nodes) + len(ends["outputs"])
    layout = Layout(count, found["edges"])
    least = min(layout.x, default=0.0)
    kinds = [op for op, _ in Counter(node["op"] for node in nodes).most_common(7)]
    packs = list(dict.fromkeys(node["pack"] for node in nodes))
    drawn = [
        *(_end(name, "input") for name in ends["inputs"]),
        *(_drawn(node, kinds, packs) for node in nodes),
        *(_end(name, "output") for name in ends["outputs"]),
    ]
    data = {
        "nodes": drawn,
        "x": [round(x - least, 2) for x in layout.x],
        "layer": layout.layer,
        "edges": layout.edges,
        "paths": [
            [[round(x - least, 2), y] for x, y in layout.paths[edge]] for edge in layout.edges
        ],
        "kinds": [*kinds, "others"] if len({n["op"] for n in nodes}) > len(kinds) else kinds,
        "packs": [pack or "hx" for pack in packs],
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _drawn(node: dict[str, Any], kinds: list[str], packs: list[str]) -> dict[str, Any]:
    used = strain(node)
    shape = "" if node["shape"] is None else f"[{', '.join(map(str, node['shape']))}]"
    error = node["problem"]
    if node["error"] is not None and not error:
        error = "none" if not node["error"] else f"{share(node['error'])} of the largest value"
        if node["allowed"]:
            error += f", {share(node['allowed'])} allowed"
    return {
        "op": node["op"].removeprefix("::"),
        "name": node["name"],
        "module": node["module"],
        "target": node["target"],
        "source": place(node["source"]),
        "pack": packs.index(node["pack"]),
        "kind": kinds.index(node["op"]) if node["op"] in kinds else 7,
        "result": f"{node['dtype']}{shape}",
        "below": node["module"].rpartition(".")[2] or shape,
        "error": error,
        "problem": bool(node["problem"]),
        "strain": None if node["error"] is None and not node["problem"] else min(used, 1e9),
    }


def _end(name: str, kind: str) -> dict[str, Any]:
    return {"op": name, "name": name, "module": "", "target": f"{kind} of the graph", "source": "",
            "pack": None, "kind": None, "strain": None, "end": True}  # fmt: skip


def _header(found: dict[str, Any]) -> str:
    state, rest = verdict(found)
    return (
        f"<header><h1>{escape(found['title'])}</h1>"
        '<button id="theme" type="button">Theme</button></header>\n'
        f'<p class="verdict {found["state"]}"><b>{escape(state)}</b> {escape(rest)}</p>'
    )


def _why(found: dict[str, Any]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in why(found))
    return f'<ul class="why">{items}</ul>' if items else ""


def _figures(found: dict[str, Any]) -> str:
    compared = sum(node["error"] is not None for node in found["nodes_by_name"])
    root = next((row for row in found["modules"] if not row["path"]), None)
    total = found["timings"].get("total", sum(found["timings"].values()))
    figures: list[tuple[str, str, str]] = []
    if found["nodes"]:
        figures += [
            ("Nodes", f"{found['nodes']:,}", f"{compared:,} compared with the model"),
            ("Weights", f"{found['initializers']:,}", size(found["size"])),
        ]
    if root is not None and root["parameters"]:
        figures.append(
            ("Parameters", rounded(root["parameters"]), rounded(len(found["modules"])) + " modules")
        )
    written = found["state"] in ("verified", "unverified")
    where = Path(found["path"]).name if found["path"] else "in memory"
    figures.append(("Opset", str(found["opset"]), where if written else "no file was written"))
    if total:
        figures.append(("Export", seconds(total), _slowest(found["timings"])))
    cells = "".join(
        f"<div><dt>{escape(a)}</dt><dd>{escape(b)}<small>{escape(c)}</small></dd></div>"
        for a, b, c in figures
    )
    ends = [[kind, edge(each)] for kind in ("inputs", "outputs") for each in found[kind][:16]]
    rows = [
        [f'<span class="soft">{kind[:-1]}</span>', f"<code>{escape(t)}</code>"] for kind, t in ends
    ]
    return f'<dl class="figures">{cells}</dl>' + (_table([], rows) if rows else "")


def _slowest(timings: dict[str, float]) -> str:
    parts = [(t, name) for name, t in timings.items() if name not in ("total", "check nodes")]
    return ", ".join(f"{name} {seconds(t)}" for t, name in sorted(parts, reverse=True)[:2])


def _proof(found: dict[str, Any]) -> str:
    proof = found["proof"]
    if proof is None:
        return ""
    rows = []
    for case in proof["cases"]:
        for i, output in enumerate(case["outputs"] or [None]):
            if output is None:
                cells = ["", "", "", f'<span class="bad lines">{escape(case["problem"])}</span>']
            else:
                state = (
                    f'<span class="bad">{escape(output["problem"])}</span>'
                    if output["problem"]
                    else '<span class="good">right</span>'
                )
                cells = [
                    f"<code>{escape(output['name'])} {escape(output['dtype'])}"
                    f"{escape(str(output['shape']))}</code>",
                    share(output["max_rel"])
                    if output["allowed"]
                    else "equal"
                    if not output["problem"]
                    else "",
                    share(output["allowed"]) if output["allowed"] else "",
                    state,
                ]
            name, time = escape(case["name"]), seconds(case["seconds"])
            rows.append(["" if i else name, *cells, "" if i else time])
    told = "".join(
        f'<p class="bad">{escape(proof[key])}</p>' for key in ("checker", "problem") if proof[key]
    )
    return (
        "<h2>Proof</h2>"
        f'<p class="lead">The file, run in {escape(proof["runtime"] or "no runtime")} beside the model. '
        "Errors are shares of an output's largest value.</p>"
        + told
        + _table(["inputs", "output", "-largest error", "-allowed", "", "-time"], rows)
    )


def _missing(found: dict[str, Any]) -> str:
    if not found["missing"]:
        return ""
    rows = []
    for each in found["missing"]:
        places = "<br>".join(
            escape(" ".join([line_of(w), w["scope"], ", ".join(w["inputs"])]))
            for w in each["places"][:6]
        )
        rows.append(
            [
                f"<code>{escape(each['target'])}</code>",
                str(each["count"]),
                f'<span class="mono soft">{places}</span>',
                escape(", ".join(each["nearest"])),
                f"<code>{escape(each['command'])}</code>"
                if each["command"]
                else escape(f"its converter declined: {each['declined']}"),
            ]
        )
    return "<h2>Without a converter</h2>" + _table(
        ["target", "-calls", "where", "nearest", "write one"], rows
    )


def chart_section(found: dict[str, Any]) -> str:
    nodes = [n for n in found["nodes_by_name"] if n["error"] is not None or n["problem"]]
    if len(nodes) < 2:  # there is nothing to go along
        return ""
    return (
        "<h2>Error along the graph</h2>"
        '<p class="lead">Every node beside what the model computed there, from the first to the '
        "last. The dashed line is what a right graph may be off by.</p>"
        f'<div class="chart">{chart.by_depth(found["nodes_by_name"])}</div>'
    )


def _graph(found: dict[str, Any]) -> str:
    if not found["nodes_by_name"]:
        return ""
    ways = [("error", "by error"), ("op", "by operator"), ("pack", "by pack")]
    ways = ways if found["checked"] else ways[1:]
    height = min(640, 160 + 80 * len(found["nodes_by_name"]))  # of few nodes, few are in a row
    buttons = "".join(
        f'<button type="button" data-by="{by}" aria-pressed="{str(i == 0).lower()}">{text}</button>'
        for i, (by, text) in enumerate(ways)
    )
    return (
        '<h2>Graph</h2><p class="lead">Drag to move, wheel to zoom, click a node to see where it '
        "comes from. The strip at the right is the whole graph.</p>"
        f'<div class="tools"><span>Coloured</span>{buttons}<span class="grow"></span>'
        '<span id="hits"></span><input id="search" type="search" placeholder="Find a node" '
        'aria-label="Find a node"><button id="top" type="button">Start</button>'
        '<button id="fit" type="button">Fit</button></div>'
        '<div class="graph"><canvas tabindex="0" aria-label="The graph, drawn"'
        f' style="height:{height}px"></canvas>'
        '<div class="card" hidden></div></div><div class="key" id="key"></div>'
    )


def _modules(found: dict[str, Any]) -> str:
    rows = found["modules"]
    if len(rows) < 2:
        return ""
    parents = {row["path"].rpartition(".")[0] for row in rows if row["path"]}
    longest = max((row["seconds"] or 0.0 for row in rows), default=0.0)
    first = 1 if len(rows) < 400 else 0
    out = []
    for row in rows:
        own = row["path"].rpartition(".")[2] or found["title"]
        kind = f'<span class="kind">{escape(row["kind"])}</span>' if row["path"] else ""
        opened = " open" if row["depth"] < first else ""
        fold = (
            f'<button type="button" class="fold{opened}" aria-label="unfold">&#9656;</button>'
            if row["path"] in parents
            else '<span class="fold"></span>'
        )
        indent = f'style="padding-left:{row["depth"] * 18}px"'
        spent = seconds(row["seconds"]) if row["seconds"] is not None else "not run"
        cells = [
            f"<td {indent}>{fold}<span>{escape(own)}</span>{kind}</td>",
            f'<td class="out mono" title="{escape(row["output"])}">{escape(row["output"])}</td>',
            f'<td class="n">{rounded(row["parameters"]) if row["parameters"] else ""}</td>',
            f'<td class="n">{row["nodes"] or ""}</td>',
            f'<td class="n">{spent}{_bar((row["seconds"] or 0) / longest if longest else 0, "accent")}</td>',
            f'<td class="n">{_error(row)}</td>',
        ]
        out.append(
            f'<tr data-path="{escape(row["path"])}" data-depth="{row["depth"]}">{"".join(cells)}</tr>'
        )
    return (
        '<h2>Modules</h2><p class="lead">What each module became, what it costs in PyTorch, and '
        "the largest error in it. A click shows it in the graph.</p>"
        '<div class="tools"><button type="button" id="unfold">Unfold all</button></div>'
        '<div class="scroll"><table id="modules"><thead><tr><th>module</th><th>result</th>'
        '<th class="n">parameters</th><th class="n">nodes</th><th class="n">time</th>'
        '<th class="n">largest error</th></tr></thead>'
        f"<tbody>{''.join(out)}</tbody></table></div>"
    )


def _error(row: dict[str, Any]) -> str:
    if row["problem"]:
        return '<span class="bad">off</span>' + _bar(1, "bad")
    if row["error"] is None:
        return ""
    return share(row["error"]) + _bar(strain(row), "good" if strain(row) < 0.5 else "warn")


def _bar(part: float, colour: str) -> str:
    width = round(100 * min(max(part, 0.0), 1.0))
    return f'<span class="bar"><i style="width:{width}%;background:var(--{colour})"></i></span>'


def _told(found: dict[str, Any]) -> str:
    parts = []
    lost = list(found["escapes"])
    if lost:
        rows = [
            [
                escape(e["kind"]),
                escape(e["detail"])
                + (' <span class="soft">carried</span>' if e["carried"] else "")
                + (f' <span class="soft">{escape(e["beyond"])}</span>' if e["beyond"] else ""),
                str(e["count"]),
                escape(line_of(e)),
            ]
            for e in lost
        ]
        parts.append(
            "<h2>Values that left the graph</h2>"
            '<p class="lead">What Python did with them is not in the graph; a number that is '
            "carried came back and is computed there. Where another size has another answer, it "
            "says whether the file was tried there.</p>"
            + _table(["how", "what", "-times", "@line"], rows)
        )
    if found["baked"]:
        parts.append(
            '<h2>Sizes baked in</h2><p class="lead">Others at another size of the inputs, though '
            "that size is said to be free.</p>"
            + _table([], [[f'<span class="mono">{escape(text)}</span>'] for text in found["baked"]])
        )
    corners = [
        [
            f"<code>{escape(t)}</code>",
            "its converter declined, and the calls inside were asked",
            str(n),
        ]
        for t, n in found["declined"].items()
    ]
    corners += [
        [f"<code>{escape(c['target'])}</code>", f"a cast was put in at {escape(place(c['source']))}",
         str(c["count"])]
        for c in found["casts"]
    ]  # fmt: skip
    corners += [[f"<code>{escape(b)}</code>", "a buffer that the model changes: the graph does not "
                 "keep that", ""] for b in found["changed_buffers"]]  # fmt: skip
    corners += [["", escape(text), ""] for text in found["notes"]]
    if corners:
        parts.append("<h2>Dark corners</h2>" + _table(["where", "what", "-times"], corners))
    return "\n".join(parts)


def _packs(found: dict[str, Any]) -> str:
    installed = {each["pack"]: each for each in found["packs_installed"]}
    names = list(dict.fromkeys([*found["packs"], *installed]))
    rows = [
        [
            escape(name),
            escape(installed.get(name, {}).get("version", "")),
            f"{found['packs'].get(name, 0):,}",
            escape(installed.get(name, {}).get("status", "by hand")),
        ]
        for name in names
    ]
    targets = sorted(found["converters"].items(), key=lambda item: (-item[1], item[0]))
    called = [[f"<code>{escape(t)}</code>", f"{n:,}"] for t, n in targets]
    versions = [[escape(k), f"<code>{escape(v)}</code>"] for k, v in found["versions"].items()]
    return (
        '<div class="two"><section><h2>Packs and versions</h2>'
        + (_table(["pack", "version", "-nodes", "state"], rows) if rows else "")
        + _table([], versions)
        + "</section>"
        + (
            f"<section><h2>Calls converted</h2>{_table(['target', '-calls'], called)}</section>"
            if called
            else ""
        )
        + "</div>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML. A head that starts with "-" is of numbers, with "@" of places."""
    classes = [{"-": "n", "@": "place"}.get(head[:1], "") for head in heads]
    named = [f' class="{name}"' if name else "" for name in classes]
    top = "".join(f"<th{c}>{escape(h.lstrip('-@'))}</th>" for c, h in zip(named, heads))
    lines = []
    for row in rows:
        marks = named or [""] * len(row)
        lines.append(
            "<tr>" + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(marks, row)) + "</tr>"
        )
    head = f"<thead><tr>{top}</tr></thead>" if top else ""
    return f'<div class="scroll"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'
