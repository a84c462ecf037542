"""`python -m hx.cli.reference`: the command reference as markdown, made from the commands.

README.md in this folder has it. With `--update FILE` it is written into FILE, between
`<!-- commands -->` and `<!-- /commands -->`; with `--check FILE` it is compared, and a difference is
exit code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hx.cli.app import command

START, END = "<!-- commands -->", "<!-- /commands -->"


def markdown() -> str:
    """All commands, each with its help, examples and options."""
    return "\n".join(_command(command(), "hx")).strip() + "\n"


def _command(node: Any, path: str) -> Iterator[str]:
    below = getattr(node, "commands", {})
    paragraphs = re.split(r"\n\s*\n", (node.help or "").strip())
    if not below:
        yield from (f"### `{_usage(node, path)}`", "")
    elif path != "hx":
        return (yield from _all(below, path))
    for paragraph in paragraphs:
        if paragraph.lstrip().startswith("\b"):
            head, *lines = paragraph.replace("\b", "").strip("\n").splitlines()
            kind = "console" if lines[0].strip().startswith("hx ") else "text"
            yield from (head.strip(), "", f"```{kind}", *map(_shell, lines), "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")
    options = [row for parameter in node.params if (row := _option(parameter))]
    if options and not below:
        yield from ("| option | |", "|---|---|", *options, "")
    yield from _all(below, path)


def _all(below: dict[str, Any], path: str) -> Iterator[str]:
    for name, each in below.items():
        yield from _command(each, f"{path} {name}")


def _shell(line: str) -> str:
    text = line.strip()
    return f"$ {text}" if text.startswith("hx ") else text


def _usage(node: Any, path: str) -> str:
    arguments = [
        p.metavar or p.name.upper() for p in node.params if p.param_type_name == "argument"
    ]
    needed = [
        f"{p.opts[-1]} {p.metavar}" for p in node.params if p.required and p.opts[0][:1] == "-"
    ]
    return " ".join([path, *arguments, *needed])


def _option(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-") or not parameter.help or parameter.name == "help":
        return ""
    names = [*sorted(parameter.opts, key=len), *parameter.secondary_opts]
    names_text = ", ".join(f"`{name}`" for name in names)
    metavar = f" `{parameter.metavar}`" if parameter.metavar else ""
    return f"| {names_text}{metavar} | {parameter.help.replace('|', chr(92) + '|')} |"


def updated(text: str) -> str:
    """The text of a file with the section between the markers made anew."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"the file has no {START} and {END}")
    return f"{before}{START}\n\n{markdown()}\n{END}{after}"


def main() -> None:
    if len(sys.argv) != 3:
        print(markdown(), end="")
        return
    path = Path(sys.argv[2])
    text = path.read_text(encoding="utf-8")
    new = updated(text)
    if sys.argv[1] == "--update":
        path.write_text(new, encoding="utf-8")
    elif new != text:
        raise SystemExit(f"{path} is not up to date: python -m hx.cli.reference --update {path}")


if __name__ == "__main__":
    main()
