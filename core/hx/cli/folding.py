"""Folding of text to a terminal's width: breaks between words, indents continued lines.

A command or a quoted text stays in one piece, however long, so that it can be copied.
"""

from __future__ import annotations

import re

# A unit that is not broken: a word, `hx packs list`, --input "x=float32[1, 3]", a command.
_COMMAND = r"hx (?:export|scan|watch|inspect|verify|diff|view|bench|explain|converters|packs) .*$"
_PIECE = re.compile(rf"{_COMMAND}|--?[\w-]+ (?:\"[^\"]*\"|'[^']*')|[^\s`]*`[^`]*`[^\s`]*|\S+")
# A label at the start of a line: "  why:   ", "error[HX202]: ", "inputs   ".
_LABEL = re.compile(r"\s*(?:error(?:\[\w+\])?: |warning: |\S+: {2,}|\w+(?: \w+)? {2,})|\s*")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def fold(text: str, room: int) -> str:
    """Fold each line of a text that is longer than `room`."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line, max(room, 20)))


def _parts(line: str, room: int) -> list[str]:
    bare = _COLOUR.sub("", line)
    if len(bare) <= room:
        return [line]
    label = _LABEL.match(bare)
    start = label.end() if label else 0
    indent = " " * (start if start <= room // 3 else 2)
    if start == len(bare) - len(bare.lstrip()):  # no label: continued lines are indented a little
        indent += "  "
    head, rest = _split(line, start)
    parts, now, fresh = [], head, True
    for piece in _PIECE.findall(rest):
        if not fresh and _length(now) + 1 + _length(piece) > room:
            parts.append(now)
            now, fresh = indent, True
        now += piece if fresh else f" {piece}"
        fresh = False
    return [*parts, now]


def _split(line: str, start: int) -> tuple[str, str]:
    """Split a line after `start` visible letters."""
    seen, i = 0, 0
    while seen < start:
        colour = _COLOUR.match(line, i)
        if colour:
            i = colour.end()
        else:
            seen, i = seen + 1, i + 1
    return line[:i], line[i:]


def _length(text: str) -> int:
    return len(_COLOUR.sub("", text))
