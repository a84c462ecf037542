"""The function that engines run on their workers: one job, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hx.batch.fork_server import GRACE_SECONDS, IDLE_SECONDS, STOP
from hx.batch.job import Answer, Job, difference, software
from hx.batch.timer import Timer
from hx.contributions import WorkerLost

LOOK_SECONDS = 0.2  # seconds between two looks at the lease

_idle: list[_Server] = []  # for the next job like the last one
_lock = threading.Lock()


def carry_out(job: Job) -> Answer:
    """Run a job, unless this worker cannot, and end it when its time is over or its lease gone."""
    host = socket.gethostname()
    if problem := unfitness(job):
        return Answer(host, "unfit", errors=problem)
    timer = Timer()
    try:
        server = _take(job)
    except NotStarted as problem:
        return Answer(host, "unfit", errors=f"worker {host}: {problem}")
    except WorkerLost as problem:
        return Answer(host, "lost", errors=str(problem))
    try:
        answer = server.answer(job, host)
    except WorkerLost as problem:
        server.close()
        return Answer(host, "lost", errors=str(problem), seconds=timer.seconds)
    except BaseException:
        server.close()
        raise
    with _lock:
        _idle.append(server)
    return Answer(**{**vars(answer), "seconds": timer.seconds})


def unfitness(job: Job) -> str:
    """Why this worker cannot run the job; empty if it can. A start is noted in the lease."""
    name = f"worker {socket.gethostname()}"
    if different := difference(job.software, software()):
        return f"{name} has {different}: install the same on all workers"
    for file in (job.folder, *job.files):
        if not Path(file).exists():
            return f"{name} does not see {file}: workers need the files of a list at the same path"
    try:
        with Path(job.lease).open("r+") as lease:
            lease.seek(0, os.SEEK_END)
            lease.write(f"{socket.gethostname()} {os.getpid()}\n")
    except FileNotFoundError:
        return f"{name} does not see {job.lease}: the list has to be in a folder that workers share"
    except OSError:
        pass  # a full disk: the job itself says so, if it matters
    return ""


def close_idle() -> None:
    """End the servers that wait for a job."""
    with _lock:
        servers, _idle[:] = list(_idle), []
    for server in servers:
        server.close()


def _take(job: Job) -> _Server:
    """A server that waits for such a job, or a new one."""
    kind = _kind(job)
    with _lock:
        for server in list(_idle):
            _idle.remove(server)
            if server.kind == kind and server.usable():
                return server
            server.close()
    return _Server(kind, job)


def _kind(job: Job) -> tuple[Any, ...]:
    """Jobs that may share a server. Those of another run may not: code may have changed since."""
    run = str(Path(job.lease).parent)
    return run, job.module, job.folder, tuple(sorted(job.environment.items()))


class NotStarted(Exception):
    """A server that ends before it is ready, by itself."""


class _Server:
    """A fork server, seen from its worker."""

    def __init__(self, kind: tuple[Any, ...], job: Job) -> None:
        self.kind = kind
        self._process = subprocess.Popen(
            [sys.executable, "-m", job.module],
            cwd=job.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **job.environment},
        )
        self._rest = b""
        self._errors = b""
        self._unused = Timer(IDLE_SECONDS / 2)
        threading.Thread(target=self._drain, daemon=True).start()
        if self._line(Timer(), None) is None:
            code = self._process.wait()
            raise (WorkerLost if code < 0 else NotStarted)(
                f"{job.module} does not start{self._last_error()}"
            )

    def usable(self) -> bool:
        return self._process.poll() is None and not self._unused.is_over

    def answer(self, job: Job, host: str) -> Answer:
        """Send the request, and wait for the reply. WorkerLost if the server dies meanwhile."""
        self._send(json.dumps(dict(job.request)))
        timer = Timer(job.limit)
        ended, reply = "", self._line(timer, Path(job.lease))
        if reply == "":
            ended = "limit" if timer.is_over else "withdrawn"
            self._send(STOP)
            reply = self._line(Timer(2 * GRACE_SECONDS), None)
        if not reply:
            raise WorkerLost(f"the process of the export was killed{self._last_error()}")
        self._unused = Timer(IDLE_SECONDS / 2)
        data = json.loads(reply)
        if ended and data["code"] == 0:  # it was through when it was asked to stop
            ended = ""
        return Answer(host, ended, data["code"], data["data"], data["errors"])

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(2 * GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it is dead, which the reply tells

    def _line(self, timer: Timer, lease: Path | None) -> str | None:
        """The next line; empty when the time is over or the lease gone; None if the server ended."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                new = os.read(descriptor, 1 << 20)
                if not new:
                    return None
                self._rest += new
            elif timer.is_over or (lease and not lease.exists()):
                return ""
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def _drain(self) -> None:
        """Keep the end of what the server itself writes to stderr."""
        assert self._process.stderr is not None
        while new := self._process.stderr.read1(1 << 16):  # type: ignore[attr-defined]
            self._errors = (self._errors + new)[-4096:]

    def _last_error(self) -> str:
        self._process.wait(GRACE_SECONDS)
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""
