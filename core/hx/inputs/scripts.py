"""A user's script, run as Python runs it."""

from __future__ import annotations

import builtins
import contextlib
import linecache
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from hx.errors import HxError, SpecError, Where
from hx.inputs.misread_specs import other_kind
from hx.packs.pack_findings import brief, own_line, source_line
from hx.weights.tensor_files import absent, near_file


@contextlib.contextmanager
def as_main(script: Path, words: Sequence[str]) -> Iterator[ModuleType]:
    """Make a module of a script the process's `__main__`, with its arguments and its folder.

    What its classes are asked for (`__module__`, their source) is found until the block ends.
    """
    module = ModuleType("__main__")
    module.__file__ = str(script)
    module.__loader__ = SourceFileLoader("__main__", str(script))
    vars(module)["__builtins__"] = builtins
    before = sys.modules["__main__"], sys.argv, [*sys.path]
    sys.modules["__main__"] = module
    sys.argv = [str(script), *words]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


def compiled(script: Path) -> CodeType:
    """Return the code of a script."""
    if not script.is_file():
        name, colon, _ = str(script).rpartition(":")
        hint = f"a script stands without a name: hx watch {name}" if colon else near_file(script)
        hint = hint or "hx watch SCRIPT.py, with the script's own arguments"
        raise SpecError(absent(script), hint=hint)
    if script.suffix != ".py" and (other := other_kind(script)) is not None:
        raise other
    linecache.checkcache(str(script))
    try:
        return compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        raise _failed(script, problem) from problem


def run(module: ModuleType, code: CodeType) -> object:
    """Run a script; return what it gave to sys.exit(), or None."""
    try:
        exec(code, vars(module))
    except SystemExit as end:
        return end.code
    except (Exception, KeyboardInterrupt) as problem:
        failed = _failed(Path(str(module.__file__)), problem)
        failed.hint = f"it has to run by itself: {in_python(module)}"
        raise failed from problem
    return None


def in_python(module: ModuleType) -> str:
    """Return the command that runs a script without hx; ARGS stands for arguments it may lack."""
    words = ["python", str(module.__file__), *sys.argv[1:]]
    return shlex.join(words) + ("" if sys.argv[1:] else " ARGS; hx watch takes the same ARGS")


def _failed(script: Path, problem: BaseException) -> HxError:
    """Return the error for a script that raised, with the user's own line."""
    file, line = own_line(problem)
    return HxError(
        f"{script} raised {brief(problem)}",
        where=Where(file, line) if file else None,
        why=source_line(problem) or _line(file, line),
    )


def _line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()
