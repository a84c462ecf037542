"""Ctrl-C and a polite kill, as a process gets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SLOW = '''
import pathlib, time
import torch

class Slow(torch.nn.Module):
    """Waits to be stopped: as it is made, as it is recorded, or as it is proved."""

    def __init__(self, at):
        super().__init__()
        self.linear = torch.nn.Linear(300, 300)
        self.calls, self.at = 0, at
        if at == 0:
            self.wait()

    def wait(self):
        pathlib.Path("started").write_text("x")
        for _ in range(600):  # a signal between Python's last look and one long sleep waits it out
            time.sleep(0.1)

    def forward(self, x):
        self.calls += 1
        Slow.all = getattr(Slow, "all", 0) + 1
        if Slow.all == self.at:
            self.wait()
        return self.linear(x)

def loading(): return Slow(0), (torch.ones(2, 300),)
def recording(): return Slow(1), (torch.ones(2, 300),)
def proving(): return Slow(2), (torch.ones(2, 300),)
def leaves(): return Leaves(), (torch.ones(2, 300),)

class Leaves(torch.nn.Module):
    def forward(self, x):
        raise SystemExit(0)
'''


@pytest.fixture
def started(folder):
    """Starts the command, and waits until its model waits."""
    (folder / "slow.py").write_text(SLOW)
    running = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "hx", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        until = time.time() + 100
        while not (folder / "started").exists() and time.time() < until:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        return process

    yield start
    for process in running:
        process.kill()


@pytest.mark.parametrize(
    "name, during",
    [("SIGINT", "loading"), ("SIGINT", "recording"), ("SIGTERM", "proving"), ("SIGHUP", "proving")],
)
def test_one_line_the_right_code_and_nothing_left(started, folder, name, during):
    (folder / "m.onnx").write_bytes(b"old")
    words = ["export", f"slow.py:{during}", "-o", "m.onnx", "--external-data", "--json"]
    process = started(*words)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + getattr(signal, name)
    assert err.splitlines() == ["error: stopped"]
    assert json.loads(out)["exit_code"] == process.returncode
    files = {p.name for p in folder.iterdir()} - {"models.py", "slow.py", "started", "__pycache__"}
    assert files == {"m.onnx"} and (folder / "m.onnx").read_bytes() == b"old"


def test_one_that_is_to_run_on_without_its_terminal_does(started, folder):
    """As under nohup: a signal that is ignored stays so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = started("export", "slow.py:recording", "-o", "m.onnx")
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_processes_of_a_list_end_with_it(started, folder, name):
    (folder / "models.toml").write_text(
        '[[model]]\nspec = "slow.py:proving"\noutput = "a.onnx"\nexternal-data = true\n'
    )
    process = started("export", "--batch", "models.toml", "--json")
    process.send_signal(getattr(signal, name))
    out, _ = process.communicate(timeout=60)
    assert [m["state"] for m in json.loads(out)["models"]] == ["stopped"]
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):  # its group has no process any more
        os.killpg(process.pid, 0)
    assert not list(folder.glob("*.onnx*")) and not list(folder.glob(".*hx-tmp"))


def test_a_model_that_ends_the_process_is_an_error(hx, folder):
    """Exit code 0 would say that the file is there."""
    (folder / "slow.py").write_text(SLOW)
    done = hx("export", "slow.py:leaves", "-o", "m.onnx")
    assert done.code == 1 and "sys.exit(0)" in done.err and "slow.py:" in done.err
    assert not (folder / "m.onnx").exists()
