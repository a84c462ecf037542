"""`hx`, the command. One file for each command; this one turns errors into exit codes.

Nothing here imports torch, onnx or rich: commands import what they need when they run.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> None:
    """The console script. `--debug`, anywhere, gives tracebacks."""
    from hx.cli.stopping import Stopped, stoppable
    from hx.errors import HxError

    debug = "--debug" in sys.argv or bool(os.environ.get("HX_DEBUG"))
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        from hx.cli.app import command

        with stoppable():
            command(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="hx")
    except HxError as problem:
        if debug:
            raise
        _fail(str(problem), problem.exit_code, problem)
    except BrokenPipeError:  # `hx converters list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except Stopped as stopped:
        _fail("stopped", stopped.exit_code)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except Exception as problem:  # the last border: people see a line, not a traceback
        if debug:
            raise
        from hx.packs.findings import brief, origin

        file, line = origin(problem)
        where = f"\n  where: {file}:{line}" if file else ""
        _fail(f"{brief(problem)}{where}\n  hint:  --debug shows the traceback", 1, problem)


def _fail(message: str, code: int, problem: BaseException | None = None) -> NoReturn:
    """The message on stderr; with --json, the same as data on stdout."""
    from hx.cli.output import as_json, complain

    complain(message)
    if "--json" in sys.argv:
        where = getattr(problem, "where", None)
        as_json(
            " ".join(word for word in sys.argv[1:3] if word.isalpha()),
            ok=False,
            exit_code=code,
            error={
                "type": type(problem).__name__ if problem else "Stopped",
                "what": getattr(problem, "what", message),
                "where": str(where) if where else "",
                "why": getattr(problem, "why", ""),
                "hint": getattr(problem, "hint", ""),
            },
            missing=[
                {"target": each.target, "count": each.count, "places": list(map(str, each.places))}
                for each in getattr(problem, "missing", ())
            ],
        )
    sys.exit(code)
