"""The progress line: it moves on a terminal, is absent in a pipe, and ends with the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals")

WAITS = """
import threading
from hx.cli.output import Progress
from hx.cli.stopping import Stopped, stoppable
try:
    with stoppable(), Progress() as progress:
        progress("recording the model")
        threading.Event().wait()
except Stopped:
    print("stopped", flush=True)
"""


def started(code):
    """A process whose stderr is a terminal, and the descriptor to read that from."""
    outer, inner = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=inner, env=env
    )
    os.close(inner)
    return process, outer


def read(descriptor):
    try:
        return os.read(descriptor, 4096).decode()
    except OSError:  # the other end is closed
        return ""


def test_the_elapsed_time_moves_within_a_stage_and_ctrl_c_ends_it():
    process, outer = started(WAITS)
    seen = ""
    while len(set(re.findall(r"recording the model.*?(\d:\d\d:\d\d)", seen, re.S))) < 2:
        more = read(outer)
        assert more, f"the process ended: {seen}"
        seen += more
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == b"stopped\n"
    while more := read(outer):
        seen += more
    os.close(outer)
    assert seen.rstrip().endswith("\x1b[2K"), "the line is removed"
    assert seen.count("\x1b[?25h") == seen.count("\x1b[?25l") == 1, "the cursor is back"


def test_nothing_is_printed_into_a_pipe():
    code = (
        "import sys\n"
        "from hx.cli.output import Progress\n"
        "with Progress() as progress: progress('recording the model')\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_name_in_a_stage_steers_no_terminal():
    code = (
        "from hx.cli.output import Progress\n"
        "with Progress() as progress: progress('[red]evil\\x1b[2Jname')"
    )
    process, outer = started(code)
    seen = ""
    while more := read(outer):
        seen += more
    process.communicate()
    os.close(outer)
    assert "[red]evil\\x1b[2Jname" in seen and "\x1b[2J" not in seen


def test_a_stage_that_is_too_long_is_cut_before_the_elapsed_time():
    code = (
        "from hx.cli.output import Progress\n"
        f"with Progress() as progress: progress({'recording the model, strategy 2: ' * 5!r})"
    )
    process, outer = started(code)
    seen = ""
    while more := read(outer):
        seen += more
    process.communicate()
    os.close(outer)
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen)
    shown = re.findall(r"\S recording the model, [^\r\x1b]*", plain)
    assert shown and all(re.search(r"… \d:\d\d:\d\d *$", line) for line in shown)
    assert max(map(len, shown)) <= 80
