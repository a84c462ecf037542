"""Tests for authors of engines: lists of small models, some of which crash a worker.

from hx.testing import engine_kit

def test_faults(tmp_path):
    engine_kit.check_faults(tmp_path, "--on", "mine", "--jobs", "2")

def test_restart(tmp_path):
    engine_kit.check_restart(tmp_path, 20, "--on", "mine", "--jobs", "2")
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LIST = "models.toml"
MODELS = '''
import os, pathlib, resource, signal, sys, time
import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent

class Small(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.linear = nn.Linear(8, 8 + number % 5)
        self.number = number

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.number

def small(number=0):
    torch.manual_seed(number)
    return Small(number), (torch.randn(2, 8),)

def once(name, process):
    """A small model; but at first, a process is killed."""
    if not (FOLDER / name).exists():
        (FOLDER / name).touch()
        os.kill(process, signal.SIGKILL)
    return small()

def parent(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

def killed(): return once("export.killed", os.getpid())
def server(): return once("server.killed", os.getppid())
def worker(): return once("worker.killed", parent(os.getppid()))
def crash(): os.kill(os.getpid(), signal.SIGSEGV)

def never():
    while True:
        time.sleep(0.1)

def waits():
    (FOLDER / "waits.killed").touch()
    never()

def slow():
    (FOLDER / f"slow.{os.getpid()}.killed").touch()
    time.sleep(3)
    return small()

def full():
    """A disk without room, as this process sees it."""
    sys.dont_write_bytecode = True  # Python would keep the 100 bytes as a compiled module
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    return small()

def __getattr__(name):
    if name.startswith("small_"):
        return lambda: small(int(name.removeprefix("small_")))
    raise AttributeError(name)
'''
FAULTS = ("never", "killed", "server", "worker", "crash", "full")


def small(count: int) -> list[str]:
    return [f"small_{number}" for number in range(count)]


def write_list(folder: Path, names: Iterable[str]) -> None:
    """Write a list of these models. The one that never ends has a limit."""
    (folder / "engine_models.py").write_text(MODELS)
    entries = []
    for name in names:
        limit = "limit = 2\n" if name == "never" else ""
        entries.append(
            f'[[model]]\nspec = "engine_models.py:{name}"\noutput = "{name}.onnx"\n{limit}'
        )
    (folder / LIST).write_text("".join(entries))


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start `hx export --batch` on the list in the folder."""
    command = [sys.executable, "-m", "hx", "export", "--batch", LIST, "--json", *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def rows(process: subprocess.Popen[str], seconds: float = 3600) -> dict[str, dict[str, Any]]:
    """Return the row of each model, by its name."""
    out, err = process.communicate(timeout=seconds)
    try:
        models = json.loads(out)["models"]
    except (ValueError, KeyError):
        raise AssertionError(f"exit code {process.returncode}\n{out}\n{err}") from None
    found = {Path(each["output"]).stem: each for each in models}
    assert len(found) == len(models)
    return found


def require_order(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    """Require a whole file for each right model, and no other files."""
    import onnx

    right = {name for name, row in found.items() if row["state"] in ("ok", "done before")}
    for name in right:
        onnx.checker.check_model(folder / f"{name}.onnx")
    files = {path.name for path in folder.iterdir() if path.suffix != ".killed"}
    others = {"engine_models.py", "__pycache__", LIST, f".{LIST}.done"}
    assert files - others == {f"{name}.onnx" for name in right}


def check_faults(folder: Path, *words: str, faults: tuple[str, ...] = FAULTS) -> None:
    """Check that every model, whatever happens to it, ends with one row and no partial file."""
    write_list(folder, [*faults, *small(4)])
    found = rows(start(folder, *words))
    assert set(found) == {*faults, *small(4)}
    for name, row in found.items():
        told = f"{name}: {row}"
        if name in ("never", "crash", "full"):
            assert row["state"] == "failed", told
        else:
            assert row["state"] == "ok", told
        if name in ("killed", "server", "worker"):
            assert row["tries"] == 2, told
    assert "longer than its limit" in found["never"]["why"]
    assert "SIGSEGV" in found["crash"]["why"]
    assert "full.onnx" in found["full"]["why"]
    require_order(folder, found)


def wait_for(folder: Path, pattern: str, count: int = 1, looks: int = 20_000) -> None:
    """Wait until a number of files exist."""
    for _ in range(looks):
        if len(list(folder.glob(pattern))) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{count} of {pattern} are not there: {sorted(folder.iterdir())}")


def ancestors(process: int) -> list[int]:
    """Return the process and its ancestors."""
    found = []
    while process > 1:
        found.append(process)
        told = Path(f"/proc/{process}/stat").read_text()
        process = int(told.rpartition(")")[2].split()[1])
    return found


def slow_process(folder: Path) -> int:
    """Wait for the process that exports the model `slow`, and return it."""
    wait_for(folder, "slow.*.killed")
    return int(next(folder.glob("slow.*.killed")).name.split(".")[1])


def check_interrupt(folder: Path, *words: str) -> None:
    """Check that Ctrl-C ends running exports, starts no others, and leaves nothing behind."""
    write_list(folder, ["small_0", "waits", "small_1"])
    process = start(folder, *words)
    wait_for(folder, "waits.killed")
    os.killpg(process.pid, signal.SIGINT)
    found = rows(process)
    assert process.returncode == 130
    states = {name: row["state"] for name, row in found.items()}
    assert states.pop("waits") == "stopped", states
    assert set(states.values()) <= {"ok", "not started"}, states  # engines choose the order
    require_order(folder, found)


def check_restart(folder: Path, models: int, *words: str) -> None:
    """Check that after kill -9, another run finishes the list and makes nothing twice."""
    write_list(folder, small(models))
    first = start(folder, *words)
    wait_for(folder, "small_*.onnx", models // 2)
    first.kill()
    first.communicate()
    made = len((folder / f".{LIST}.done").read_text().splitlines())
    found = rows(start(folder, *words))
    states = [row["state"] for row in found.values()]
    told = "\n".join(f"{name} {row['state']}: {row['why']}" for name, row in found.items())
    assert len(states) == models and set(states) <= {"ok", "done before"}, told
    assert states.count("done before") == made, f"{made} were made\n{told}"
    require_order(folder, found)
