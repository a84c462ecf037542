"""Output of commands: tables, facts, JSON and progress.

Only terminals get colour, shortened text and progress; `hx.cli.streams` decides where it goes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

from hx.cli.folding import fold
from hx.cli.streams import columns, data, tell
from hx.text import aligned

SCHEMA = 1

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
STATUS = {"ok": "green", "failed": "red", "incompatible": "yellow", "disabled": "dim"}


def coloured(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def paint(text: str, colour: str | None, stream: TextIO | None = None) -> str:
    """Colour a text if the stream shows colours."""
    if not colour or not text or not coloured(stream or data()):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def plain(text: str) -> str:
    """Return a name from a file on one line, with control characters escaped."""
    if text.isprintable():  # a listing has thousands of names
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def harmless(text: str, stream: TextIO) -> str:
    """Return lines unchanged, with hx's colours, but with other control characters escaped."""
    ours = "|".join(["0", *_COLOURS.values()])
    kept = rf"(\x1b\[(?:{ours})m|[\n\t])" if coloured(stream) else r"([\n\t])"
    parts = re.split(kept, text)
    return "".join(part if i % 2 else plain(part) for i, part in enumerate(parts))


def say(text: str = "") -> None:
    """Print a line of data to stdout."""
    data().write(f"{harmless(text, data())}\n")


def say_prose(text: str) -> None:
    """Print sentences to stdout; a terminal's edge cuts no word."""
    say(folded(text, data()))


def note(text: str) -> None:
    """Print a message to stderr."""
    tell(harmless(folded(text, sys.stderr), sys.stderr))


def complain(message: str, code: str = "") -> None:
    """Print an error with its code, which `hx explain` takes."""
    head = f"error[{code}]:" if code else "error:"
    note(f"{paint(head, 'red', sys.stderr)} {message}")


def warn(message: str) -> None:
    note(f"{paint('warning:', 'yellow', sys.stderr)} {message}")


def as_json(command: str, **parts: Any) -> None:
    """Print one JSON object, with the number of the schema that it follows."""
    import json

    say(json.dumps({"schema": SCHEMA, "command": command, **parts}, indent=2, default=str))


def folded(text: str, stream: TextIO) -> str:
    """Fold a text to lines that fit a terminal; a file or a pipe gets each line whole."""
    return fold(text, columns(stream)) if stream.isatty() else text


def width() -> int | None:
    """Return the terminal's columns; None if stdout is no terminal and lines may be long."""
    return columns(data()) if data().isatty() else None


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    colours: Sequence[str | None] | None = None,
    by_value: dict[str, str] | None = None,
    shrink: Sequence[int] = (),
    numbers: Collection[int] = (),
) -> None:
    """Print aligned columns, those in `numbers` at their right ends.

    On a terminal, columns in `shrink` are narrowed first, in order.
    """
    lines = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max(len(head), *(len(line[i]) for line in lines), 0) for i, head in enumerate(heads)]
    room = width()
    for column in shrink if room else ():
        excess = sum(widths) + 2 * (len(widths) - 1) - (room or 0)
        if excess > 0:
            widths[column] = max(len(heads[column]), 12, widths[column] - excess)
    colour = coloured(data())

    def aligned_cells(line: Sequence[str]) -> list[str]:
        cells = [_cut(cell, size) for cell, size in zip(line, widths)]
        return [cell.rjust(widths[i]) if i in numbers else cell.ljust(widths[i])
                for i, cell in enumerate(cells)]  # fmt: skip

    head = "  ".join(aligned_cells([head.upper() for head in heads])).rstrip()
    shown = [paint(head, "bold")]
    for line in lines:
        cells = aligned_cells(line)
        if colour:
            names = ((by_value or {}).get(c) or (colours[i] if colours else None)
                     for i, c in enumerate(line))  # fmt: skip
            cells = [paint(cell, name) for cell, name in zip(cells, names)]
        shown.append("  ".join(cells).rstrip())
    say("\n".join(shown))


def _cut(text: str, size: int) -> str:
    """Shorten text to a size. A name keeps its end, too, which tells it from other names."""
    if len(text) <= size:
        return text
    end = 0 if " " in text else 2 * size // 3
    return f"{text[: size - 1 - end]}…{text[len(text) - end :]}"


def facts(pairs: Iterable[tuple[str, Any]], aside: bool = False, colour: str = "dim") -> None:
    """Print `name  value` lines, with aligned values; empty values are left out.

    They are data, or a message on stderr with `aside`. The names are printed in `colour`.
    """
    stream, write = (sys.stderr, note) if aside else (data(), say_prose)
    for name, value in aligned(pairs):
        write(f"{paint(name, colour, stream)}  {value}")


class Progress:
    """Current stage and elapsed time, on one moving line of a terminal.

    Nothing is printed if stderr is no terminal. The line disappears at the end, also on Ctrl-C.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: Any = None  # a rich.progress.Progress
        self._task: Any = None

    def __call__(self, stage: str) -> None:
        if not self.enabled:
            return
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(stage, total=None)
        self._bar.update(self._task, description=plain(stage))
        self._bar.start()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.wipe()

    def wipe(self) -> None:
        """Remove the line; the next stage shows it again."""
        if self._bar is not None:
            self._bar.stop()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column
    from rich.text import Text

    class Stage(TextColumn):
        """Text that is cut where the terminal is narrow; the time beside it stays whole."""

        def render(self, task: Any) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    return Bar(
        SpinnerColumn("line"),
        Stage("{task.description}", table_column=Column()),  # the only one that may be narrower
        TimeElapsedColumn(),
        console=Console(file=sys.stderr, no_color=not coloured(sys.stderr)),
        transient=True,
        redirect_stdout=False,  # a model may print
        redirect_stderr=False,
    )
