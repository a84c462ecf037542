"""Page about all errors, from those that `hx explain CODE` shows."""

from __future__ import annotations

from collections.abc import Iterator

from hx.error_pages import page, titles

EXITS = {
    "1": "the export failed",
    "2": "the command or the call is wrong",
    "3": "a pack is broken or missing",
    "4": "the file is wrong",
    "5": "converters are missing",
}


def markdown() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Errors", "")
    yield "Each error of hx has a code. `hx explain CODE` shows its section of this page."
    yield from ("", "| code | error | exit code |", "|---|---|---|")
    for code, title in titles().items():
        yield f"| [{code}](#{code.lower()}) | {title} | {code[2]}, {EXITS[code[2]]} |"
    for code, title in titles().items():
        _, _, text = page(code).partition("\n")
        yield from ("", f"## {code}: {title} {{ #{code.lower()} }}")
        yield text.replace("\n## How to fix it\n", "\n**How to fix it.**\n").rstrip()
