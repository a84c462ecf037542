"""`python -m hx.cli.reference`: the command reference as markdown, made from the commands.

README.md in this folder contains it. `--update FILE` writes it into FILE, between
`<!-- commands -->` and `<!-- /commands -->`; `--check FILE` compares it and exits with code 1 if it
differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hx.cli.app import command
from hx.cli.readme_section import Section


def markdown() -> str:
    """Describe all commands, each with its help, examples and options."""
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


SECTION = Section("commands", "hx.cli.reference", markdown)

if __name__ == "__main__":
    SECTION.main()
