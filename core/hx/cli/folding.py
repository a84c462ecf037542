"""Lines of a terminal's width: broken between words, and set in under what they go on with.

A command, or what stands in quotes, stays in one piece, however long: it is there to be copied.
"""

from __future__ import annotations

import re

# A word, with what it cannot do without: `hx packs list`, --input "x=float32[1, 3]", a command.
_COMMAND = r"hx (?:export|scan|inspect|verify|diff|view|bench|converters|packs) .*$"
_PIECE = re.compile(rf"{_COMMAND}|--?[\w-]+ (?:\"[^\"]*\"|'[^']*')|[^\s`]*`[^`]*`[^\s`]*|\S+")
# What a line begins with that says what the rest of it is: "  why:   ", "error: ", "inputs   ".
_LABEL = re.compile(r"\s*(?:error: |warning: |\S+: {2,}|\w+(?: \w+)? {2,})|\s*")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def fold(text: str, room: int) -> str:
    """The text with each line that is longer than `room` in several."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line, max(room, 20)))


def _parts(line: str, room: int) -> list[str]:
    bare = _COLOUR.sub("", line)
    if len(bare) <= room:
        return [line]
    label = _LABEL.match(bare)
    start = label.end() if label else 0
    indent = " " * (start if start <= room // 3 else 2)
    if start == len(bare) - len(bare.lstrip()):  # no label: it goes on a little further in
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
    """The line before and behind so many letters that are shown."""
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
