"""A process that has imported what all requests need, and forks for each of them.

The imports take seconds, a fork takes milliseconds, and each request still runs in a process of its
own, that no other request has touched. Requests come as lines of JSON on stdin, replies go as lines
of JSON to stdout. While a request runs, a line `stop` or the end of stdin interrupts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import select
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from hx.batch.timer import Timer

FORKS = sys.platform == "linux"  # elsewhere, system libraries do not survive a fork
GRACE_SECONDS = 20.0  # seconds that an interrupted request has to put everything in order
IDLE_SECONDS = 120.0  # seconds without a request, after which the server ends
STOP = "stop"

Handle = Callable[[dict[str, Any]], dict[str, Any]]


def serve(handle: Handle) -> None:
    """Answer requests until stdin ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # it ends with its worker, at the end of stdin
        signal.signal(number, signal.SIG_IGN)
    replies = os.dup(1)
    os.dup2(2, 1)
    lines = _Lines(0)
    _reply(replies, {"ready": os.getpid()})
    while lines.wait(IDLE_SECONDS):
        line = lines.next()
        if line is None:
            return
        if line != STOP:  # one that came too late to stop anything
            _reply(replies, _answer(handle, json.loads(line), lines))


class _Lines:
    """Lines that arrive at a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def wait(self, seconds: float) -> bool:
        return b"\n" in self._rest or bool(select.select([self.descriptor], [], [], seconds)[0])

    def next(self) -> str | None:
        """The next line, once all of it has arrived; None at the end."""
        while b"\n" not in self._rest:
            new = os.read(self.descriptor, 1 << 16)
            if not new:
                return None
            self._rest += new
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


def _reply(descriptor: int, reply: dict[str, Any]) -> None:
    data = json.dumps(reply).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _answer(handle: Handle, request: dict[str, Any], lines: _Lines) -> dict[str, Any]:
    context: Any = multiprocessing.get_context("fork" if FORKS else "spawn")
    answers, answer = context.Pipe(duplex=False)
    errors, error = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(handle, request, answer, error))
    child.start()
    with contextlib.suppress(OSError):  # both sides do it: whoever comes first
        os.setpgid(child.pid, child.pid)
    answer.close()
    error.close()
    heard = _Heard(answers, errors)
    grace: Timer | None = None  # after which a request that was interrupted is killed
    while child.is_alive():
        waited: list[Any] = [child.sentinel, *heard.open]
        ready = wait(waited if grace is not None else [*waited, lines.descriptor], 0.2)
        heard.read(ready)
        if grace is None and (lines.descriptor in ready or lines.wait(0)):
            lines.next()
            grace = Timer(GRACE_SECONDS)
            _signal(child.pid, signal.SIGINT)
        elif grace is not None and grace.is_over:
            _signal(child.pid, signal.SIGKILL)
    child.join()
    _signal(child.pid, signal.SIGKILL)  # what the request has started and left
    while ready := wait(heard.open, 0) if heard.open else []:
        heard.read(ready)
    answers.close()
    errors.close()
    return {"code": child.exitcode, "data": heard.data, "errors": heard.errors}


class _Heard:
    """Everything that a child has sent so far."""

    def __init__(self, answers: Connection, errors: Connection) -> None:
        self.open = [answers, errors]
        self._answers = answers
        self._errors = b""
        self.data: dict[str, Any] = {}

    @property
    def errors(self) -> str:
        return self._errors.decode(errors="replace").strip()

    def read(self, ready: list[Any]) -> None:
        for connection in [each for each in self.open if each in ready]:
            try:
                if connection is self._answers:
                    self.data = json.loads(connection.recv_bytes())
                    continue
                new = os.read(connection.fileno(), 1 << 16)
            except (EOFError, OSError):
                new = b""
            self._errors = (self._errors + new)[-(1 << 18) :]
            if not new:
                self.open.remove(connection)


def _child(handle: Handle, request: dict[str, Any], answer: Connection, error: Connection) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    _end_with_parent()
    os.dup2(error.fileno(), 1)
    os.dup2(error.fileno(), 2)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # engines block some in their workers
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reply = handle(request)
    answer.send_bytes(json.dumps(reply, default=str).encode())
    sys.stderr.flush()
    os._exit(int(reply.get("code", 0)))  # no handler of the model's libraries can hold it up


def _end_with_parent() -> None:
    """Have the system kill this process when the server is killed."""
    if FORKS:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() == 1:  # it was killed before
            os._exit(1)


def _signal(group: int | None, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group or 0, number)
