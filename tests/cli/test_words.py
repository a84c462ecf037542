"""Words that are off, or that would be ignored: one line that says which, and what to write."""

from __future__ import annotations

import json
import os
import pty
import re
import sys

import pytest

SOURCE = """
from hx import ModelSource
def hx_model_sources(): return [ModelSource("zoo", lambda name: 7)]
"""


@pytest.mark.parametrize(
    "words, told",
    [
        (["export", "models.py:number", "-o", "m.onnx"], "is an int, not a torch.nn.Module"),
        (["export", "models.py:__doc__", "-o", "m.onnx"], "is None, not a torch.nn.Module"),
        (["export", "models.py:line", "-o", "models.py/m.onnx"], "models.py is a file, not a folder"),
        (["export", "models.py:line", "-o", "models.py/a/m.onnx"], "is a file, not a folder"),
        (["export", "models.py:line", "-o", "-"], "hx writes to a file, not to stdout"),
        (["export", "models.py:line", "-o", "m.onnx", "--jobs", "2"], "--jobs goes with --batch only"),
        (["export", "models.py:line", "-o", "m.onnx", "--again"], "--again goes with --batch only"),
        (["export", "models.py:line", "-o", "m.onnx", "--inputs", "."], ". is a folder, not a file"),
        (["export", "models.py:line", "-o", "m.onnx", "-i", "x"], "'x' says no dtype and shape"),
        (["view", "."], ". is a folder, not a file"),
        (["diff", ".", "."], ". is a folder, not a file"),
        (["verify", ".", "models.py:line"], ". is a folder, not a file"),
        (["inspect", "models.py:line", "--depth", "-1"], "-1 is less than 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_off_is_said_as_it_is(hx, folder, words, told):
    done = hx(*words)
    assert done.code == 2 and told in done.err and "mkdir" not in done.err
    assert not (folder / "m.onnx").exists() and not (folder / "-").exists()


def test_a_model_source_that_gives_no_model_is_named(shell, installed):
    installed("hx-zoo", SOURCE)
    done = shell("export", "zoo:any", "-o", "m.onnx")
    assert done.code == 2 and "'zoo:any' is an int" in done.err
    assert "the model source 'zoo' (hx-zoo[main])" in done.err


def test_a_model_source_may_give_a_class_as_a_file_may(shell, installed, folder):
    installed("hx-zoo", SOURCE.replace("lambda name: 7", "of_class") + """
def of_class(name):
    from torch.nn import Linear
    return type("Line", (Linear,), {"__init__": lambda self: Linear.__init__(self, 3, 2)})
""")  # fmt: skip
    done = shell("export", "zoo:any", "-o", "m.onnx", "-i", "input=float32[n,3]")
    assert done.code == 0, done.told


def test_a_finding_without_a_place_has_no_empty_line_for_it(shell, installed, folder):
    installed("hx-gone", "")
    (folder / "site" / "hx_gone-1.0.dist-info" / "entry_points.txt").write_text(
        "[hx]\nmain = hx_gone.nowhere\n"
    )
    done = shell("packs", "list")
    assert "cannot be imported" in done.out and not re.search(r"where: *$", done.out, re.M)


def test_the_example_is_written_as_its_source_takes_it(hx, monkeypatch):
    assert "--use torch.nn" in hx("converters", "list", "--use", "relu").err
    monkeypatch.setenv("HX_USE", "relu")
    assert "HX_USE=torch.nn" in hx("packs", "list").err


@pytest.mark.parametrize("words", [["-d", "x:0=b"], ["-i", "x=float32[b,4]"]], ids=" ".join)
def test_a_size_that_the_file_fixes_is_none_that_may_change(hx, folder, words):
    assert hx("export", "models.py:Holder", "-o", "m.onnx").code == 0
    done = hx("verify", "m.onnx", "models.py:Holder", *words)
    assert done.code == 2 and "axis 0 of x is 2" in done.err and "b cannot change" in done.err
    assert hx("export", "models.py:Holder", "-o", "m.onnx", *words).code == 0
    assert hx("verify", "m.onnx", "models.py:Holder", *words).code == 0


def test_a_browser_that_was_asked_for_and_cannot_be_had_is_told(hx, folder, monkeypatch):
    assert hx("export", "models.py:with_inputs", "-o", "m.onnx").code == 0
    monkeypatch.setitem(sys.modules, "netron", None)
    done = hx("view", "m.onnx", "--browser", "--json")
    assert done.code == 2 and "pip install netron" in done.err and not done.json["ok"]
    assert hx("view", "m.onnx").code == 0  # not on a terminal: nobody asked for it


def test_targets_can_be_told_apart_in_a_narrow_terminal(hx):
    every = [each["target"] for each in json.loads(
        hx("converters", "list", "quantized::*", "--json").out)["converters"]]  # fmt: skip
    pid, terminal = pty.fork()
    if not pid:
        os.environ |= {"COLUMNS": "40", "NO_COLOR": "1"}
        words = ["-m", "hx", "converters", "list", "quantized::*"]
        os.execv(sys.executable, [sys.executable, *words])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # its other end is closed
            break
        if not part:
            break
        shown += part
    os.waitpid(pid, 0)
    rows = shown.decode().splitlines()[1 : len(every) + 1]
    assert max(map(len, rows)) <= 40
    assert len({row.split()[0] for row in rows}) > 0.7 * len(set(every))


def test_a_name_that_a_model_source_nearly_has_is_told(shell, installed):
    installed(
        "hx-acme",
        "from hx import ModelSource\n"
        "def load(name): return {'regressor': 1}[name]\n"
        "def hx_model_sources():\n"
        "    return [ModelSource('acme', load, names=lambda: ['regressor', 'ranker'])]\n",
    )
    done = shell("export", "acme:regresor", "-o", "m.onnx")
    assert done.code == 1 and "did you mean acme:regressor?" in done.err, done.told
    other = shell("export", "acme:zebra", "-o", "m.onnx")
    assert other.code == 1 and "did you mean" not in other.err
