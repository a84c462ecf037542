"""Python processes that begin with the large libraries imported: forks of one that waits for them.

    done = warm_python.run("hx", "export", "demo:model", cwd=folder, env=environment)

gives what `subprocess.run([sys.executable, "-m", "hx", ...])` gives, with its output as text. hx and
packs are imported in the fork, from the paths of its environment. A process that says something
about imports has to begin without them, and so does one that shadows a library.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

LIBRARIES = ("torch", "onnx", "onnxruntime", "onnx_ir")
WORDS = ("export", "scan", "verify", "packs check", "packs new", "converters try")


def is_for(*words: str) -> bool:
    """Return whether a command of hx needs the libraries in any case."""
    return " ".join(words).startswith(WORDS)


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
    while True:
        request, files, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not request:
            return
        child = fork.Process(target=_become, args=(files, paths), kwargs=json.loads(request))
        child.start()
        for file in files:
            os.close(file)
        child.join()
        requests.send(str(child.exitcode).encode())


def _become(
    files: list[int], paths: list[str], words: list[str], cwd: str, env: dict[str, str]
) -> None:
    """Be the process that `python -m` starts."""
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *paths]
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), errors="backslashreplace", line_buffering=True
    )
    sys.argv = list(words)
    importlib.invalidate_caches()
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    _serve(socket.socket(fileno=int(sys.argv[1])))
