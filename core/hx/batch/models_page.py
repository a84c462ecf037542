"""One page over all models of a list: what failed and why, and a table that can be sorted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from hx import page as page_of_one
from hx.batch.results import Group, Result
from hx.text import amount, bytes_text, first_few

COLUMNS = ("model", "state", "nodes", "size", "seconds", "max error", "tries", "why")
STYLE = """
th { cursor: pointer; }
td.ok { color: var(--good); } td.failed, td.stopped { color: var(--bad); }
#models td { white-space: nowrap; }
#models td:last-child { white-space: normal; min-width: 240px; }
"""
SCRIPT = """
document.querySelectorAll("#models th").forEach((head, column) => {
  let up = false;
  head.addEventListener("click", () => {
    up = !up;
    const body = document.querySelector("#models tbody");
    const key = row => {
      const text = row.cells[column].dataset.value;
      return text === "" ? null : isNaN(text) ? text : Number(text);
    };
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
    });
    body.append(...rows);
  });
});
"""


def page(title: str, results: Sequence[Result], groups: Sequence[Group], folder: Path) -> str:
    """The page as HTML; files are linked as seen from the folder that it will be in."""
    css = (Path(page_of_one.__file__).parent / "page.css").read_text(encoding="utf-8")
    states = Counter(result.state for result in results)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    failed = sum(count for state, count in states.items() if state not in ("ok", "done before"))
    verdict = "failed" if failed else "verified"
    body = [
        f"<header><h1>{escape(title)}</h1></header>",
        f'<p class="verdict {verdict}"><b>{amount(len(results), "model")}:</b> {escape(counts)}</p>',
        _groups("Missing converters", [each for each in groups if each.converter]),
        _groups("Other failures", [each for each in groups if not each.converter]),
        _models(results, folder),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}, exported</title>\n<style>\n{css}{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(part for part in body if part) + "\n</main>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _groups(title: str, groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    rows = "\n".join(
        f"<tr><td>{len(each.models)}</td><td><code>{escape(each.cause)}</code></td>"
        f"<td>{escape(first_few(each.models))}</td></tr>"
        for each in groups
    )
    return (
        f'<h2>{title}</h2>\n<div class="scroll"><table>'
        "<thead><tr><th>models</th><th>cause</th><th>which</th></tr>"
        f"</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _models(results: Sequence[Result], folder: Path) -> str:
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "\n".join(f"<tr>{_row(result, folder)}</tr>" for result in results)
    return (
        '<h2>Models</h2>\n<p class="lead">Click a heading to sort.</p>\n'
        '<div class="scroll"><table id="models">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(result: Result, folder: Path) -> str:
    row = result.row()
    name = escape(row["output"])
    if result.entry.pages:
        link = os.path.relpath(str(result.entry.pages[0]), str(folder))
        name = f'<a href="{escape(link)}">{name}</a>'
    size, error, spent = row["size"], row["max_error"], row["seconds"]
    cells: list[tuple[Any, str]] = [
        (row["output"], name),
        (row["state"], row["state"]),
        (row["nodes"], _text(row["nodes"])),
        (size, "" if size is None else bytes_text(size)),
        (spent or None, f"{spent:.1f}" if spent else ""),
        (error, "" if error is None else f"{error:.1e}"),
        (row["tries"] or None, _text(row["tries"] or None)),
        (row["why"], escape(row["why"])),
    ]
    state = escape(row["state"].partition(" ")[0])
    return "".join(
        f'<td data-value="{escape(_text(value))}"{f" class={state}" if i == 1 else ""}>{shown}</td>'
        for i, (value, shown) in enumerate(cells)
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)
