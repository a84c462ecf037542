"""Real signals at random moments of whole exports, with their proof and their file.

    HX_THOROUGH=1 python -m pytest -s tests/saving/test_interrupts.py

sends 300 of each kind, and prints how many came while an export ran.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
import warm_python
from restless import Restless

import hx

THOROUGH = bool(os.environ.get("HX_THOROUGH"))
COUNT = 300 if THOROUGH else 20  # at other moments each time


def by_kill():
    os.kill(os.getpid(), signal.SIGINT)


def by_thread():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


# Python itself drops what is raised in a finalizer or the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("send", [by_kill, by_thread])
@pytest.mark.parametrize("external", [False, True])
def test_ctrl_c_at_random_moments(send, external, tmp_path, World, monkeypatch, capsys):
    torch.set_num_threads(1)
    model, x, path = Restless().train(), torch.randn(2, 1, 6, 6), tmp_path / "out" / "m.onnx"
    for folder in ("out", "temporary"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def export():
        hx.export(model, x, path, dynamic={"x": {0: "b"}}, external_data=external)
        hx.export(model, x)  # in memory: its file is in a temporary folder

    def files():
        found = (p for p in tmp_path.rglob("*") if not p.is_dir() or p.parent != tmp_path)
        return {str(p): p.is_file() and p.read_bytes() for p in found}

    for _ in range(3):
        start = time.perf_counter()
        export()
        takes = time.perf_counter() - start
    expected, world, ends = files(), World(model), Counter()
    chance = random.Random()
    for _ in range(COUNT):
        delay = chance.uniform(0, takes)

        def shoot(delay=delay):
            time.sleep(delay)
            send()

        thread = threading.Thread(target=shoot)
        end = "too late"
        try:
            thread.start()
            export()
            thread.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            end = "interrupted"
        while thread in threading.enumerate():  # an interrupted join() takes it for ended
            time.sleep(0.001)
        ends[end] += 1
        world.require_unchanged(f"a signal after {delay:.4f} s")
        assert files() == expected, f"a signal after {delay:.4f} s left {sorted(files())}"
    with capsys.disabled():
        print(f"\n{COUNT} signals: {dict(ends)}")
    assert ends["interrupted"] > COUNT / 2
    export()
    assert files() == expected


FIRST = """
import sys, os, signal
import torch, hx

count, path = int(sys.argv[1]), sys.argv[2]
model, x = torch.nn.Linear(3, 3), torch.ones(1, 3)

def arrived(event, about):
    global count
    if event == "import":
        count -= 1
        if count == 0:
            signal.raise_signal(signal.SIGINT)

sys.addaudithook(arrived)
try:
    hx.export(model, x, path).model
    print("whole")
except KeyboardInterrupt:
    print("stopped")
count = 0
hx.export(model, x, path)
hx.export(model, x, path).model
print("again")
"""


@pytest.mark.parametrize("at", range(1, 700, 10) if THOROUGH else (51, 150, 300, 600))
def test_ctrl_c_while_libraries_are_imported(at, tmp_path):
    """Half an import breaks some libraries for as long as the process lives."""
    words = [sys.executable, "-c", FIRST, str(at), str(tmp_path / "m.onnx")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.stdout.split() == ["stopped", "again"], done.stderr


def test_signals_are_answered_after_an_import(tmp_path):
    """In the order that they came, and by whoever answers them."""
    from hx.safe_import import safe_import

    (tmp_path / "acmeslow.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nready = True\n"
    )
    sys.path.insert(0, str(tmp_path))
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            safe_import("acmeslow")
        assert sys.modules["acmeslow"].ready
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("acmeslow", None)


def test_what_a_killed_export_left_among_the_temporary_files_goes(tmp_path, monkeypatch):
    """An export in memory has its weights there: gigabytes, perhaps."""
    code = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
import torch, hx
calls = []

def dies(module, inputs, output):
    calls.append(1)
    if len(calls) == 2:  # the first is recorded, and the second is a part of the proof
        os.kill(os.getpid(), signal.SIGKILL)

model = torch.nn.Linear(300, 300)
model.register_forward_hook(dies)
hx.export(model, torch.ones(1, 300))
"""
    assert warm_python.run_code(code, str(tmp_path)).returncode == -signal.SIGKILL
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in left) > 300 * 300 * 4
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with_ours = hx.export(torch.nn.Linear(3, 3), torch.ones(1, 3))
    assert with_ours.proof.ok and list(Path(tmp_path).iterdir()) == []
