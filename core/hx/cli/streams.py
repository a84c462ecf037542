"""Streams: data on stdout, everything else on stderr, whoever prints it.

A model, a pack, or a process that one of them starts may print anywhere. So the target of file
descriptor 1 is kept for data alone, and what others write to it goes to stderr. A message that
cannot be written or encoded stops nothing; data that cannot be written does.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO


class DataLost(BaseException):
    """Error: data cannot be written. No Exception, because a model's code may catch those."""

    exit_code = 1

    def __init__(self, problem: OSError) -> None:
        # `hx converters list | head` needs no message
        self.reader_left = problem.errno == errno.EPIPE
        self.what = f"stdout cannot be written to: {(problem.strerror or str(problem)).lower()}"


class _Data(io.TextIOWrapper):
    """Line-buffered stream for data, so that data and messages stay in order in one terminal."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        raw = open(descriptor, "wb")  # noqa: SIM115  # closed with the stream that it becomes
        super().__init__(raw, encoding, "hx.near", line_buffering=True)
        self.lost: DataLost | None = None

    def write(self, text: str) -> int:
        return self._surely(super().write, text)

    def flush(self) -> None:
        return self._surely(super().flush)

    def _surely(self, action: Callable[..., Any], *args: Any) -> Any:
        try:
            return action(*args)
        except OSError as problem:
            # Discard what is still buffered, and all later data.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno(), inheritable=False)
            os.close(nowhere)
            self.lost = DataLost(problem)
            raise self.lost from None


@dataclass
class _Parted:
    data: TextIO
    before: tuple[Any, Any]  # sys.stdout and sys.stderr
    descriptor: int  # a duplicate of the former descriptor 1


_parted: _Parted | None = None


def part() -> None:
    """Separate data from messages until the process ends, or until `joined` undoes it."""
    global _parted
    # Otherwise the next opened file gets the number of a closed stream.
    for number in (0, 1, 2):
        _be_open(number)
    codecs.register_error("hx.near", _near)
    before = (sys.stdout, sys.stderr)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for the process
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr.reconfigure(errors="hx.near")
    if sys.stdout is not None:
        sys.stdout.flush()
    descriptor = os.dup(1)
    if sys.stdout is sys.__stdout__:
        data: TextIO = _Data(descriptor, getattr(sys.stdout, "encoding", None) or "utf-8")
    else:  # replaced to capture output
        data = sys.stdout
    os.dup2(2, 1)
    _parted = _Parted(data, before, descriptor)
    sys.stdout = data  # for the command line itself: its help, its completions


def others_print() -> None:
    """Send what other code prints from here on to stderr."""
    if _parted is not None:
        sys.stdout = sys.stderr


def joined() -> None:
    """Restore the streams as they were: the process goes on after the command."""
    global _parted
    if _parted is not None:
        sys.stdout.flush()
        os.dup2(_parted.descriptor, 1)
        sys.stdout, sys.stderr = _parted.before
        if _parted.data is sys.stdout:
            os.close(_parted.descriptor)
        else:
            _parted.data.close()
        _parted = None


def data() -> TextIO:
    return _parted.data if _parted is not None else sys.stdout


def lost() -> DataLost | None:
    """Return the error that lost data, if it has not been reported yet."""
    return getattr(data(), "lost", None)


def tell(text: str, end: str = "\n") -> None:
    """Print a message to stderr; if that fails, the work goes on."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, end=end, flush=True)


def columns(stream: TextIO) -> int:
    """Return the width of the stream's terminal, or the number in COLUMNS."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _be_open(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        found = os.open(os.devnull, os.O_RDWR)
        if found != number:
            os.dup2(found, number)
            os.close(found)
        os.set_inheritable(number, True)


_NEAR = {"├": "|", "└": "`", "│": "|", "…": "~", "→": ">", "µ": "u"}


def _near(problem: UnicodeError) -> tuple[str, int]:
    """Encode hx's own signs as similar ASCII, and other letters as escapes."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    letters = problem.object[problem.start : problem.end]
    near = (_NEAR.get(c) or c.encode("ascii", "backslashreplace").decode() for c in letters)
    return "".join(near), problem.end
