"""`hx`, the command. One file for each command; this one turns errors into exit codes.

Nothing here imports torch, onnx or rich: commands import what they need when they run.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> None:
    """Run the console script. `--debug`, anywhere, shows tracebacks."""
    from hx.cli import streams

    own = own_words(sys.argv)
    debug = "--debug" in own or bool(os.environ.get("HX_DEBUG"))
    sys.argv = [word for word in own if word != "--debug"] + sys.argv[len(own) :]
    streams.part()
    try:
        code = _run(debug)
        lost = streams.lost()
    except streams.DataLost as problem:
        code, lost = problem.exit_code, problem
    if lost is not None:
        from hx.cli.output import complain

        code = code or lost.exit_code
        if not lost.reader_left:
            complain(lost.what)
    sys.exit(code)


def own_words(words: list[str]) -> list[str]:
    """Return the words for hx: those after the script of `hx watch` belong to the script."""
    if "watch" in words[1:3]:
        for place, word in enumerate(words):
            if place and word.endswith(".py"):
                return words[: place + 1]
    return words


def _run(debug: bool) -> int:
    """Run a command, report its error if there is one, and return the exit code."""
    from hx.cli.border import PastTyper, code_of, in_words, missing_dependency
    from hx.cli.stopping import Stopped, stoppable
    from hx.errors import HxError

    try:
        try:
            from hx.cli.app import command, in_order

            sys.argv[1:] = in_order(sys.argv[1:])
            with stoppable():
                tree = command(sys.argv[1] if len(sys.argv) > 1 else "")
                code = tree(prog_name="hx", standalone_mode=False)
                return code if isinstance(code, int) else 0
        except PastTyper as carried:
            raise carried.problem from None
    except HxError as problem:
        if debug:
            raise
        return _fail(str(problem), problem.exit_code, problem, problem.code)
    except Stopped as stopped:
        return _fail("stopped", stopped.exit_code)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except SystemExit as end:  # the library's own answer, after a completion
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as problem:  # the last border: people see a line, not a traceback
        if hasattr(
            problem, "format_message"
        ):  # the command line's library found words that are off
            return _misused(problem)
        if debug:
            raise
        missing = missing_dependency(problem)
        if missing is not None:
            return _fail(str(missing), missing.exit_code, missing, missing.code)
        return _fail(in_words(problem), 1, problem, code_of(problem))


def _misused(problem: Any) -> int:
    from hx.cli.border import misused
    from hx.errors import HxError

    if type(problem).__name__ == "NoArgsIsHelpError":  # a group alone, as `hx packs`
        from hx.cli.output import say

        say(problem.ctx.get_help())
        return 0

    error: HxError = misused(problem)
    return _fail(str(error), error.exit_code, error, error.code)


def _fail(
    message: str, exit_code: int, problem: BaseException | None = None, code: str = ""
) -> int:
    """Print a message on stderr; with --json, also as data on stdout."""
    from hx.cli.border import as_options
    from hx.cli.output import complain
    from hx.text import relative_paths

    message = as_options(message)
    complain(relative_paths(message), code)
    _as_data(exit_code, problem, message, code)
    return exit_code


def _as_data(exit_code: int, problem: BaseException | None, message: str, code: str) -> None:
    if "--json" not in own_words(sys.argv):
        return
    from hx.cli.border import as_options
    from hx.cli.output import as_json

    where = getattr(problem, "where", None)
    as_json(
        " ".join(word for word in sys.argv[1:3] if word.isalpha()),
        ok=False,
        exit_code=exit_code,
        error={
            "code": code,
            "type": type(problem).__name__ if problem else "Stopped",
            "what": as_options(getattr(problem, "what", message)),
            "where": str(where) if where else "",
            "why": as_options(getattr(problem, "why", "")),
            "hint": as_options(getattr(problem, "hint", "")),
        },
        missing=[
            {"target": each.target, "count": each.count, "places": list(map(str, each.places))}
            for each in getattr(problem, "missing", ())
        ],
    )
