"""Page about the public names of hx, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import hx
from hx import errors, hookspecs

GROUPS = {
    "Export": ["export", "scan", "Program", "Report"],
    "Look inside a model": ["record", "rewrite", "watch", "features"],
    "Write converters": ["converter", "case", "Case", "registrations", "Op"],
    "Write packs": [
        "ModelSource",
        "ReferenceKernel",
        "Container",
        "GraphPass",
        "Registry",
    ],
}
# Members of classes that users need; the engine calls further ones.
MEMBERS = {
    "Program": ["model", "report", "proof", "run", "save", "check_nodes", "certify"],
    "Report": [
        "state",
        "findings",
        "notes",
        "escapes",
        "promised",
        "missing",
        "inputs",
        "outputs",
        "strategies",
        "timings",
        "node_table",
        "to_html",
        "to_markdown",
        "to_json",
        "to_dict",
        "write",
    ],
    "Registry": ["installed", "add"],
}
_ROW = re.compile(r"(\S(?:.*?\S)?) {2,}(\S.*)")


def markdown() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Python", "", "All of these are attributes of `hx`.")
    for title, names in GROUPS.items():
        yield from ("", f"## {title}")
        for name in names:
            yield from _entry(name, getattr(hx, name))
    yield from (
        "",
        "### Hooks",
        "",
        "Functions of a pack's module, marked with `@hx.hookimpl`.",
        "",
    )
    yield from ("| | |", "|---|---|")
    for name, hook in vars(hookspecs).items():
        if name.startswith("hx_"):
            yield f"| `{name}()` | {_cell(_head(hook))} |"
    yield from ("", "## Errors", "", "[All errors](errors.md), with what to do.", "")
    _, _, tree = (errors.__doc__ or "").partition("\n\n")
    yield from ("```text", tree.partition("\n\n")[0], "```")


def _entry(name: str, entry: Any) -> Iterator[str]:
    yield from ("", f"### `{name}`", "")
    shown = "" if name in MEMBERS else signature(f"hx.{name}", entry)
    if shown:
        yield from ("```python", shown, "```", "")
    yield from docstring(entry)
    if name in MEMBERS:
        rows = {each: _member(name, entry, each) for each in MEMBERS[name]}
        yield from ("", "| | |", "|---|---|", *filter(None, rows.values()))
        others = [f"`{name.lower()}.{each}`" for each, row in rows.items() if not row]
        if others:
            yield from ("", f"And {', '.join(others)}.")


def _member(owner: str, entry: type, name: str) -> str:
    """Return the row of a member, or "" if it has no docstring, as a field has none."""
    member = inspect.getattr_static(entry, name, None)
    function = getattr(member, "__func__", getattr(member, "fget", member))
    if not inspect.isfunction(function) or not function.__doc__:
        return ""
    place = f"{'hx.Registry' if isinstance(member, classmethod) else owner.lower()}.{name}"
    called = "" if isinstance(member, property) else _parameters(function, bound=True)
    return f"| `{place}{_cell(called)}` | {_cell(_head(function))} |"


def _head(function: Any) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].split())


def signature(name: str, entry: Any) -> str:
    """Return the call of a function or class with its defaults, or "" if it takes nothing."""
    if not (inspect.isfunction(entry) or inspect.isclass(entry)):
        return ""
    if inspect.isclass(entry) and not hasattr(entry, "__dataclass_fields__"):
        return ""
    line = name + _parameters(entry)
    if len(line) <= 80:
        return line
    inside = textwrap.wrap(line[len(name) + 1 : -1], 76)
    return "\n".join([f"{name}(", *(f"    {each}" for each in inside), ")"])


def _parameters(entry: Any, bound: bool = False) -> str:
    parameters = list(inspect.signature(entry).parameters.values())[1 if bound else 0 :]
    shown = [
        each.replace(annotation=each.empty, default=_Default(each.default))
        if each.default is not each.empty
        else each.replace(annotation=each.empty)
        for each in parameters
    ]
    return str(inspect.Signature(shown))


class _Default:
    """Default value of a parameter, shown as in code; `...` if code cannot show it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        if callable(self.value):
            return getattr(self.value, "__name__", "...")
        text = repr(self.value)
        return "..." if text.startswith("<") else text


def docstring(entry: Any) -> Iterator[str]:
    """Return the docstring as Markdown: columns become a table, what is indented becomes code."""
    text = inspect.cleandoc(entry.__doc__ or "")
    for paragraph in re.split(r"\n\n(?! )|\n\n(?= )", text):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield from ("```python", textwrap.dedent(paragraph), "```", "")
        elif rows := _rows(lines):
            yield from ("| | |", "|---|---|")
            yield from (f"| `{_cell(name)}` | {_cell(about)} |" for name, about in rows)
            yield ""
        else:
            yield from (paragraph, "")


def _rows(lines: list[str]) -> list[tuple[str, str]]:
    """Return names and texts of lines in two columns; nothing if the lines are plain text."""
    rows: list[tuple[str, str]] = []
    for i, line in enumerate(lines):
        wide = i + 1 < len(lines) and lines[i + 1].startswith("     ")
        if line.startswith(" "):
            if not rows:
                return []
            rows[-1] = rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip()
        elif found := _ROW.fullmatch(line):
            rows.append((found[1], found[2]))
        elif wide:
            rows.append((line, ""))
        else:
            return []
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
