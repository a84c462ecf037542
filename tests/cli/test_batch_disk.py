"""`hx export --batch` on a disk that becomes full, and with a manifest that was cut short."""

from __future__ import annotations

import json
import subprocess

import onnx
import pytest

pytestmark = pytest.mark.usefixtures("warm_workers")

MODELS = """
import torch

def small():
    return torch.nn.Linear(4, 4), (torch.randn(2, 4),)

def large():
    return torch.nn.Linear(1000, 1000), (torch.randn(2, 1000),)

def fills_the_disk():
    with open("rest", "wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return small()
"""


@pytest.fixture
def write_list(folder):
    def write(*names):
        if not (folder / "sized.py").exists():  # a changed file would be a reason to export again
            (folder / "sized.py").write_text(MODELS)
        entry = '[[model]]\nspec = "sized.py:{0}"\noutput = "{0}.onnx"\n'
        (folder / "models.toml").write_text("".join(map(entry.format, names)))
        return "export", "--batch", "models.toml", "--json", "--jobs", "1"

    return write


@pytest.fixture
def small_disk(folder):
    """Make the folder a disk of its own, with 2 MB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no command mount on this machine")
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def made(folder):
    for path in folder.glob("*.onnx"):
        onnx.checker.check_model(path)
    files = {path.name for path in folder.iterdir()}
    return files - {"sized.py", "models.toml", ".models.toml.done", "models.py", "__pycache__"}


def test_a_model_that_is_too_large_for_the_disk(hx, small_disk, write_list, monkeypatch):
    monkeypatch.chdir(small_disk)
    done = hx(*write_list("small", "large"))
    small, large = done.json["models"]
    assert small["state"] == "ok" and large["state"] == "failed"
    assert "large.onnx" in large["why"] and "no space left on device" in large["error"]["why"]
    assert made(small_disk) == {"small.onnx"}


def test_a_disk_that_becomes_full(hx, small_disk, write_list, monkeypatch):
    monkeypatch.chdir(small_disk)
    words = write_list("small", "fills_the_disk", "large")
    done = hx(*words)
    assert [row["state"] for row in done.json["models"]] == ["ok", "failed", "failed"]
    assert made(small_disk) == {"small.onnx", "rest"}
    (small_disk / "rest").unlink()
    done = hx(*write_list("small", "large"))
    assert [row["state"] for row in done.json["models"]] == ["done before", "failed"]


@pytest.mark.parametrize("left", ["half a line", "no last newline", "no JSON", "no text"])
def test_a_manifest_that_was_cut_short(left, hx, folder, write_list):
    words = write_list("small", "large")
    hx(*words)
    path = folder / ".models.toml.done"
    first, second = path.read_bytes().splitlines(keepends=True)
    assert json.loads(second)["output"].endswith("large.onnx")
    end = {
        "half a line": second[: len(second) // 2],
        "no last newline": second[:-1],
        "no JSON": b"[]\nnull\n{}\n",
        "no text": b"\xff\xfe\x00",
    }[left]
    path.write_bytes(first + end)
    expected = "done before" if left == "no last newline" else "ok"
    done = hx(*words)
    assert [row["state"] for row in done.json["models"]] == ["done before", expected]
    done = hx(*words)
    assert [row["state"] for row in done.json["models"]] == ["done before"] * 2
