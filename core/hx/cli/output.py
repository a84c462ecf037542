"""What commands print: tables, facts, JSON and progress.

Colour, shortening and progress only to terminals; `hx.cli.streams` says where it all goes.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from hx.cli.folding import fold
from hx.cli.streams import columns, data, tell
from hx.summary import aligned

SCHEMA = 1

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
STATUS = {"ok": "green", "failed": "red", "incompatible": "yellow", "disabled": "dim"}


def coloured(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def paint(text: str, colour: str | None, stream: TextIO | None = None) -> str:
    """The text in a colour, when the stream shows colours."""
    if not colour or not text or not coloured(stream or data()):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def plain(text: str) -> str:
    """A name as somebody's file has it, on one line: what would steer a terminal is spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def harmless(text: str, stream: TextIO) -> str:
    """Lines as they are and in our colours; nothing else that a terminal would obey."""
    ours = "|".join(["0", *_COLOURS.values()])
    kept = rf"(\x1b\[(?:{ours})m|[\n\t])" if coloured(stream) else r"([\n\t])"
    parts = re.split(kept, text)
    return "".join(part if i % 2 else plain(part) for i, part in enumerate(parts))


def say(text: str = "") -> None:
    """A line of data, to stdout."""
    data().write(f"{harmless(text, data())}\n")


def say_prose(text: str) -> None:
    """The same, of sentences: on a terminal no word is cut at its edge."""
    say(folded(text, data()))


def note(text: str) -> None:
    """Something for people, to stderr."""
    tell(harmless(folded(text, sys.stderr), sys.stderr))


def complain(message: str) -> None:
    """An error: its first line in red, and what follows as it is."""
    first, newline, rest = message.partition("\n")
    note(f"{paint('error:', 'red', sys.stderr)} {first}{newline}{rest}")


def warn(message: str) -> None:
    note(f"{paint('warning:', 'yellow', sys.stderr)} {message}")


def as_json(command: str, **parts: Any) -> None:
    """One JSON object, with the number of the schema that it follows."""
    import json

    say(json.dumps({"schema": SCHEMA, "command": command, **parts}, indent=2, default=str))


def folded(text: str, stream: TextIO) -> str:
    """The text in lines that fit a terminal; a file or a pipe gets each line whole."""
    return fold(text, columns(stream)) if stream.isatty() else text


def width() -> int | None:
    """Columns of the terminal; None when stdout is no terminal, and lines may be long."""
    return columns(data()) if data().isatty() else None


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    colours: Sequence[str | None] | None = None,
    by_value: dict[str, str] | None = None,
    shrink: Sequence[int] = (),
) -> None:
    """Aligned columns. On a terminal the columns `shrink`, in that order, give up room first."""
    lines = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max(len(head), *(len(line[i]) for line in lines), 0) for i, head in enumerate(heads)]
    room = width()
    for column in shrink if room else ():
        excess = sum(widths) + 2 * (len(widths) - 1) - (room or 0)
        if excess > 0:
            widths[column] = max(len(heads[column]), 12, widths[column] - excess)
    colour = coloured(data())
    shown = [paint(_row([head.upper() for head in heads], widths), "bold")]
    for line in lines:
        cells = [_cut(cell, size).ljust(size) for cell, size in zip(line, widths)]
        if colour:
            names = ((by_value or {}).get(c) or (colours[i] if colours else None)
                     for i, c in enumerate(line))  # fmt: skip
            cells = [paint(cell, name) for cell, name in zip(cells, names)]
        shown.append("  ".join(cells).rstrip())
    say("\n".join(shown))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(size) for cell, size in zip(cells, widths)).rstrip()


def _cut(text: str, size: int) -> str:
    """So long at most. Of a name the end stays, too: it is what tells it from the others."""
    if len(text) <= size:
        return text
    end = 0 if " " in text else 2 * size // 3
    return f"{text[: size - 1 - end]}…{text[len(text) - end :]}"


def facts(pairs: Iterable[tuple[str, Any]], aside: bool = False) -> None:
    """`name  value` lines, with values under one another; empty values are left out.

    They are data, or for people only, when they are said `aside`.
    """
    stream, write = (sys.stderr, note) if aside else (data(), say_prose)
    for name, value in aligned(pairs):
        write(f"{paint(name, 'dim', stream)}  {value}")


class Progress:
    """The stage that an export is in, on one line of a terminal that is wiped at the end."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.started = time.perf_counter()

    def __call__(self, stage: str) -> None:
        if self.enabled:
            seconds = time.perf_counter() - self.started
            line = f"{stage} … {seconds:.1f} s"
            line = line[: columns(sys.stderr) - 1]
            tell(f"\r\x1b[2K{paint(line, 'dim', sys.stderr)}", end="")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.wipe()

    def wipe(self) -> None:
        if self.enabled:
            tell("\r\x1b[2K", end="")
