"""Border between typer and the code that a command runs: exceptions do not cross it unmarked.

typer takes a sys.exit(), a KeyboardInterrupt or a broken pipe as its own and ends silently. Inside
a command they come from the model or from a pack, and must be reported.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hx.cli import streams
from hx.errors import HxError, MissingDependency, ModelFailed, UsageError


class PastTyper(BaseException):
    """Carrier of an exception from a model or a pack past typer."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


def guard(command: Any) -> Any:
    """Wrap a command, and those below it, so that the border surrounds what they run."""
    below = getattr(command, "commands", {})
    for each in below.values():
        guard(each)
    if not below:
        command.callback = _guarded(command.callback)
    return command


def _guarded(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        streams.others_print()
        try:
            return callback(*args, **kwargs)
        except SystemExit as end:
            raise _ended(f"something called sys.exit({end.code!r})", end, 1) from end
        except KeyboardInterrupt as stop:  # Ctrl-C itself is a `Stopped`
            raise _ended("something raised a KeyboardInterrupt", stop, 130) from stop
        except (EOFError, OSError) as problem:
            raise PastTyper(problem) from problem

    return run


# Messages name arguments of `hx.export`; these patterns rewrite them as options of the command.
_AS_OPTIONS = (
    (re.compile(r"(?<![\w.-])dynamic=(?![\w{\"'])"), "--dynamic"),
    (re.compile(r"(?<![\w.-])strict=True\b"), "--strict"),
    (re.compile(r"\bexport without strict\b"), "export without --strict"),
    (re.compile(r"(?<![\w.-])opset=(\d+)"), r"--opset \1"),
    (re.compile(r"(?<![\w.-])weights=, --weights"), "--weights"),
)


def as_options(text: str) -> str:
    """Rewrite a message in the terms of the command line."""
    for said, option in _AS_OPTIONS:
        text = said.sub(option, text)
    return text


def in_words(problem: Exception) -> str:
    """Describe a problem to the user in a few lines, never with a traceback."""
    from hx.packs.pack_findings import brief, origin

    if isinstance(problem, HxError):
        return str(problem)
    if (missing := missing_dependency(problem)) is not None:
        return str(missing)
    file, line = origin(problem)
    where = f"\n  where: {file}:{line}" if file else ""
    whose = "this was raised outside of hx; " if file and not _is_own(file) else ""
    return f"{brief(problem)}{where}\n  hint:  {whose}--debug shows the traceback"


def missing_dependency(problem: Exception) -> MissingDependency | None:
    """Return the error for a library that hx needs; None if code of the user imports it."""
    from hx.packs.pack_findings import is_of_user, origin

    if not isinstance(problem, ModuleNotFoundError) or not problem.name or is_of_user(problem):
        return None
    library = problem.name.partition(".")[0]
    file, line = origin(problem)
    return MissingDependency(
        f"hx needs {library}, which is not installed",
        why=f"{file}:{line} imports it" if file else "",
        hint=f"{sys.executable} -m pip install {library.replace('_', '-')}",
    )


def code_of(problem: Exception) -> str:
    """Return the code of an error that nothing foresaw: of the model, or of hx itself."""
    from hx.packs.pack_findings import origin

    file, _ = origin(problem)
    return ModelFailed.code if file and not _is_own(file) else HxError.code


def _is_own(file: str) -> bool:
    import hx

    return Path(file).is_relative_to(Path(hx.__file__).parent)


# Options of other exporters, and of `hx.export` in Python, and what the commands call them.
_ELSEWHERE = {
    "--others": "--inputs",
    "--kwargs": "--inputs",
    "--dynamic-axes": "--dynamic",
    "--dynamic-shapes": "--dynamic",
    "--opset-version": "--opset",
    "--fp16": "--dtype float16",
    "--half": "--dtype float16",
}


def misused(problem: Any) -> UsageError:
    """Turn typer's error about the command line into one in the usual form."""
    text = problem.format_message().strip()
    what, _, near = text.partition(" Did you mean ")
    what, _, options = what.partition(" (Possible options: ")
    near = near.rstrip("?") or options.rstrip(")")
    context = getattr(problem, "ctx", None)
    instead = _ELSEWHERE.get(what.rpartition(" ")[2].replace("_", "-"), "")
    near = instead if instead.partition(" ")[0] in _options_of(context) else near
    named = [word for word in sys.argv[1:2] if word.isalpha()]
    command = " ".join(["hx", *named]) if context is None else context.command_path
    hint = f"{command} --help"
    if near:
        hint = f"did you mean {near}? See {command} --help"
    elif what.startswith("Got unexpected extra argument"):
        words = what.rpartition("(")[2].rstrip(")")
        what = f"unexpected argument: {words}"
        graph = words.endswith(".onnx") and "--output" in _options_of(context)
        hint = f"to write there: -o {words}" if graph else hint
    elif what.startswith("Missing") and (line := _first_example(context)):
        hint = f"as in: {line}. See {command} --help"
    return UsageError(what[:1].lower() + what[1:].rstrip("."), hint=hint)


def _options_of(context: Any) -> set[str]:
    """Return the options of a command."""
    parameters = [] if context is None else context.command.params
    return {option for each in parameters for option in each.opts}


def _first_example(context: Any) -> str:
    """Return the first example on the help page of a command, or ""."""
    page = "" if context is None else context.command.help or ""
    lines = page.partition("Examples:\n")[2].splitlines()
    return re.split(r"\s{2,}", lines[0].strip())[0] if lines else ""


def _ended(what: str, problem: BaseException, code: int) -> HxError:
    from hx.packs.pack_findings import where_raised

    why = "the command had not come to its end"
    error = HxError(what, where=where_raised(problem), why=why)
    error.exit_code = code
    return error
