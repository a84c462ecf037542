"""`hx explain CODE`."""

from __future__ import annotations

from typing import Annotated

import typer

from hx.cli import options as o


def complete_code(incomplete: str) -> list[str]:
    from hx.error_pages import titles

    return [code for code in titles() if code.startswith(incomplete.upper())]


Code = Annotated[
    str | None,
    typer.Argument(
        metavar="CODE",
        help="Code of an error, such as HX202; all are listed if none is given.",
        autocompletion=complete_code,
        show_default=False,
    ),
]


def explain(code: Code = None, json: o.Json = False) -> None:
    """Explain an error: what it means, and what to do.

    \b
    Examples:
      hx explain
      hx explain HX202
    """
    from hx.cli.output import as_json, say_prose, table
    from hx.error_pages import page, titles

    if code is None:
        found = titles()
        if json:
            as_json("explain", codes=found)
        else:
            table(["code", "error"], [*found.items()], shrink=[1])
        return
    code = f"HX{code}" if code.isdecimal() else code.upper()
    text = page(code)
    if json:
        as_json("explain", code=code, title=titles()[code], text=text)
    else:
        say_prose(text.rstrip())
