"""Worker processes as the parent sees them: ask, and wait for the answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hx.errors import HxError


class Failed(HxError):
    """Error: a worker failed at a request; `what` is one line, the text has all details."""

    def __init__(self, what: str, text: str = "", exit_code: int = 1, code: str = "HX100") -> None:
        super().__init__(what)
        self._text, self.exit_code, self.code = text or what, exit_code, code

    def __str__(self) -> str:
        return self._text


class Late(Failed):
    """Error: a worker exceeded its time limit and was ended."""


class Child:
    """Worker process, from its first request until it is closed."""

    def __init__(self, folder: Path, threads: int, **env: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._errors = folder / "stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hx.bench.one_side"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Idle threads must not take a core from the side whose turn it is.
                env={"OMP_WAIT_POLICY": "passive", **os.environ}
                | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
                | env,
            )

    def ask(self, do: str, limit: float = 0.0, **what: Any) -> dict[str, Any]:
        """Answer to one request, within `limit` seconds if given; raises if the worker died."""
        self.send(do, **what)
        if not limit:
            return self.answer()
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            return self.answer()
        except Failed:
            if late.is_set():
                raise Late(f"not through after {limit:g} s") from None
            raise
        finally:
            timer.cancel()

    def send(self, do: str, **what: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: `answer` reports how
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(self._end())
        reply = json.loads(line)
        if not reply.pop("ok"):
            raise Failed(reply["error"], reply["text"], reply["exit_code"], reply["code"])
        return reply

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _end(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"its process ended with code {code}{': ' + lines[-1] if lines else ''}"
