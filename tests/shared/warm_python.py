"""Python processes that begin with hx and large libraries imported: forks of one that waits for them.

    done = warm_python.run("hx", "export", "demo:model", cwd=folder, env=environment)

gives what `subprocess.run([sys.executable, "-m", "hx", ...])` gives, with its output as text, and
`run_code(text, ...)` what `-c` in place of `-m` gives. A `WarmProcess` stands for a
`subprocess.Popen` with three pipes. Packs are imported in the fork, from the paths of its
environment, and so is what Python or pytest wants to import itself. A process that says something
about imports has to begin without them, and so does one that shadows a library.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import multiprocessing
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "torch.onnx", "onnx", "onnxruntime", "onnx_ir", "hx_converters.standard_pack")
STARTED = re.compile(r"__main__$|^hx\.(testing|cli\.warm_export|bench\.one_side)\b")
WORDS = ("export", "scan", "verify", "packs check", "packs new", "converters try")


def is_for(*words: str) -> bool:
    """Return whether a command of hx needs the libraries in any case."""
    return " ".join(words).startswith(WORDS)


def run_code(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program with its arguments, and without an input."""
    return run("-c", text, *words, cwd=Path.cwd())


def run(
    *words: str, cwd: Path, env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run a module with its arguments, and without an input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {"words": words, "cwd": str(cwd), "env": dict(env)}
        files = [out.fileno(), err.fileno()]
        socket.send_fds(_server(), [json.dumps(request).encode()], files)
        code = int(_server().recv(64))
        told = []
        for file in (out, err):
            file.seek(0)
            told.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *told)


class WarmProcess:
    """A forked process with the methods of `subprocess.Popen` that hx calls."""

    returncode: int | None = None

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: Any,
        cwd: str | None = None,
        text: bool = False,
    ) -> None:
        assert list(command[:2]) == [sys.executable, "-m"]
        assert stdin == stdout == subprocess.PIPE
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (given, feed), (out, told) = os.pipe(), os.pipe()
        err, said = os.pipe() if stderr == subprocess.PIPE else (-1, os.dup(stderr.fileno()))
        request = {"words": command[2:], "cwd": cwd or str(Path.cwd()), "env": dict(env)}
        files = [given, told, said, theirs.fileno()]
        socket.send_fds(_server(), [json.dumps(request).encode()], files)
        for file in files[:3]:
            os.close(file)
        theirs.close()
        kind = "" if text else "b"
        self.stdin, self.stdout = os.fdopen(feed, f"w{kind}"), os.fdopen(out, f"r{kind}")
        self.stderr = None if err < 0 else os.fdopen(err, f"r{kind}")
        self._keeper = ours
        self.pid = int(ours.recv(64))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._keeper], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout or 0)
            self.returncode = int(self._keeper.recv(64))
        return self.returncode

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@functools.cache
def _server() -> socket.socket:
    """The connection to the process that waits; at the end of this one, it ends, too."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, str(theirs.fileno())]
    subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    return ours


def _serve(requests: socket.socket) -> None:
    own = {str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    paths = [path for path in sys.path if path not in own]
    fork = multiprocessing.get_context("fork")
    keepers: list[Any] = []
    while True:
        request, files, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not request:
            return
        words = json.loads(request)
        if len(files) == 4:
            keepers = [each for each in keepers if each.is_alive()]  # the others are through
            keepers.append(fork.Process(target=_keep, args=(files, paths, words)))
            keepers[-1].start()
        else:
            child = fork.Process(target=_become, args=([-1, *files], paths), kwargs=words)
            child.start()
            child.join()
            requests.send(str(child.exitcode).encode())
        for file in files:
            os.close(file)


def _keep(files: list[int], paths: list[str], words: dict[str, Any]) -> None:
    """Be the parent of a process, and tell how it ends."""
    *files, control = files
    child = multiprocessing.get_context("fork").Process(
        target=_become, args=(files, paths), kwargs=words
    )
    child.start()
    for file in files:
        os.close(file)
    keeper = socket.socket(fileno=control)
    keeper.send(str(child.pid).encode())
    child.join()
    with contextlib.suppress(OSError):  # nobody waits for it any more
        keeper.send(str(child.exitcode).encode())


def _become(
    files: list[int], paths: list[str], words: list[str], cwd: str, env: dict[str, str]
) -> None:
    """Be the process that `python -m` starts."""
    for number, file in enumerate(files):
        if file >= 0:
            os.dup2(file, number)
            os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *paths]
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), errors="backslashreplace", line_buffering=True
    )
    sys.argv = list(words)
    importlib.invalidate_caches()
    if words[0] != "-c":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return
    del sys.argv[1]
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(words[1], vars(sys.modules["__main__"]))


def _import_all() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    for name in sys.modules["hx_converters.standard_pack"].hx_converters():
        importlib.import_module(name)
    for module in pkgutil.walk_packages(sys.modules["hx"].__path__, "hx."):
        if not STARTED.search(module.name):
            importlib.import_module(module.name)


if __name__ == "__main__":
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
