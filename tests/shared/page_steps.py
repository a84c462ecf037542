"""Steps of a page of the documentation: files to write, Python to run, commands to give."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```", re.S | re.M)
_FILE = re.compile(r"# (\S+\.(?:py|toml))\n")


@dataclass
class Step:
    """One block of a page, or one command of a block with the output that follows it."""

    kind: str  # file, python or command
    text: str
    name: str = ""  # of a file
    shown: list[str] = field(default_factory=list)  # parts of the output of a command, in order
    code: int | None = None  # exit code of a command, if the page shows `echo $?`

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    def ends_with(self, code: int) -> bool:
        """Return True if a command ends with this code on the page; an error needs none there."""
        if self.code is None and any(each.startswith("error[") for each in self.shown):
            return code > 0
        return code == (self.code or 0)

    def missing(self, told: str) -> str:
        """Return the first part that the output lacks, or ""."""
        told, start = _plain(told), 0
        for part in map(_plain, self.shown):
            found = told.find(part, start)
            if found < 0:
                return part
            start = found + len(part)
        return ""


def steps(page: str) -> list[Step]:
    """List the steps of a page in their order. `...` stands for any output."""
    found: list[Step] = []
    for step in _steps(page):
        if step.text == "echo $?":
            found[-1].code = int(step.shown[0])
        else:
            found.append(step)
    return found


def _steps(page: str) -> Iterator[Step]:
    for language, text in _BLOCK.findall(page):
        named = _FILE.match(text)
        if language != "console":
            yield Step("file" if named else "python", text, named[1] if named else "")
            continue
        for command in re.split(r"^\$ ", text, flags=re.M)[1:]:
            line, _, shown = command.partition("\n")
            parts = re.split(r"\.\.\.", shown)
            yield Step(
                "command", line, shown=[s for part in parts if (s := " ".join(part.split()))]
            )


def checked(python: str) -> str:
    """Turn each `line  # -> text` into an assertion that the line gives what the text says."""
    return re.sub(
        r"^(\S.*?)  # -> (.*)$",
        lambda said: f"assert repr({said[1]}) == {said[2]!r}, repr({said[1]})",
        python,
        flags=re.M,
    )


def _plain(text: str) -> str:
    """Leave out what depends on the machine and on the cases of a proof: errors, counts, sizes."""
    text = re.sub(
        r"max error \S+ \(limit \S+\), \d+ input sets?(, \w+ \d+ to \d+)*", "PROVED", text
    )
    text = re.sub(r"\(\d+(\.\d+)? [kM]?B", "(SIZE", text)
    return " ".join(text.split())
