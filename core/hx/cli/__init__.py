"""`hx`, the command. One file for each command; this one turns errors into exit codes.

Nothing here imports torch, onnx or rich: commands import what they need when they run.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script. `--debug`, anywhere, gives tracebacks."""
    from hx.errors import HxError

    debug = "--debug" in sys.argv or bool(os.environ.get("HX_DEBUG"))
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        from hx.cli.app import command

        command(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="hx")
    except HxError as problem:
        if debug:
            raise
        _fail(str(problem), problem.exit_code)
    except BrokenPipeError:  # `hx converters list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except Exception as problem:
        if debug:
            raise
        from hx.findings import brief

        _fail(
            f"hx failed in a way it did not foresee: {brief(problem)}\n"
            "  hint:  run it again with --debug for the traceback",
            1,
        )


def _fail(message: str, code: int) -> None:
    from hx.cli.output import complain

    complain(message)
    sys.exit(code)
