"""Where words go: data on stdout, all else on stderr, whoever prints; and streams that are odd."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOUD = """
import atexit, os, sys
import torch

atexit.register(print, "at the end")
print("as it is imported")
os.system("echo a child")

class Loud(torch.nn.Module):
    def forward(self, x):
        print("in forward")
        sys.stdout.write("by hand")
        os.write(1, b"past Python")
        return x * 2

def loud():
    print("as it is made")
    return Loud(), (torch.ones(2),)

class Ends(torch.nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        raise self.how

def interrupts(): return Ends(KeyboardInterrupt()), (torch.ones(2),)
def pipes(): return Ends(BrokenPipeError(32, "its own pipe")), (torch.ones(2),)
def asks(): return Ends(EOFError("nobody answers")), (torch.ones(2),)
"""
WORDS = {
    "export": ["export", "loud.py:loud", "-o", "m.onnx"],
    "scan": ["scan", "loud.py:loud"],
    "inspect": ["inspect", "loud.py:loud", "--watch"],
    "verify": ["verify", "m.onnx", "loud.py:loud"],
}


@pytest.fixture
def loud(folder):
    (folder / "loud.py").write_text(LOUD)


@pytest.mark.parametrize("command", WORDS)
def test_what_others_print_is_no_data(terminal, loud, command):
    if command == "verify":
        assert terminal(*WORDS["export"]).code == 0
    done = terminal(*WORDS[command], "--json")
    assert done.code == 0 and done.json["command"] == command
    for told in ("as it is imported", "a child", "as it is made", "in forward", "by hand",
                 "past Python", "at the end"):  # fmt: skip
        assert told in done.err and told not in done.out


def test_what_is_said_without_json_is_data_alone_too(terminal, loud):
    assert terminal(*WORDS["export"]).out == ""
    assert terminal(*WORDS["inspect"]).out.splitlines()[0].startswith("Loud")


def test_what_was_meant_is_in_the_hint(hx):
    assert "hint:  did you mean 'export'? See hx --help" in hx("exprot").err
    assert "hint:  did you mean --batch? See hx export --help" in hx("export", "--batc", "x").err


@pytest.mark.parametrize(
    "words, told",
    [
        (["export", "--frob"], "--frob"),
        (["export", "models.py:line", "-o", "m.onnx", "--opset", "99"], "99 is not from 13 to 26"),
        (["verify", "m.onnx"], "SPEC"),
        (["exprot"], "no such command 'exprot'"),
        (["packs", "new", "hx-mine"], "--target"),
    ],
    ids=["option", "range", "missing argument", "command", "missing option"],
)
def test_words_that_are_off_are_data_too(hx, words, told):
    done = hx(*words, "--json")
    assert done.code == 2 and told in done.err and "Usage:" not in done.err
    assert done.err.startswith("error[") and "\n  hint:  " in done.err
    found = done.json
    assert found["schema"] == 1 and found["ok"] is False and found["exit_code"] == 2
    assert told in found["error"]["what"] and found["error"]["type"] == "UsageError"
    assert found["error"]["hint"].endswith("--help")


@pytest.mark.parametrize(
    "name, code, told",
    [
        ("interrupts", 130, "something raised a KeyboardInterrupt"),
        ("pipes", 1, "its own pipe"),
        ("asks", 1, "nobody answers"),
    ],
)
def test_what_a_model_raises_is_not_taken_for_a_signal(terminal, loud, folder, name, code, told):
    done = terminal("export", f"loud.py:{name}", "-o", "m.onnx", "--json")
    assert done.code == code and told in done.err and "loud.py:" in done.err
    assert told in done.json["error"]["what"] and done.json["exit_code"] == code
    assert not (folder / "m.onnx").exists()


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@FULL
@pytest.mark.parametrize("words", [["packs", "list", "--json"], ["packs", "list"], ["--help"]])
def test_data_that_does_not_get_out_is_an_error(terminal, words):
    with Path("/dev/full").open("w") as full:
        done = terminal(*words, stdout=full)
    assert done.code == 1
    assert done.err == "error: stdout cannot be written to: no space left on device\n"


@FULL
def test_an_error_whose_data_does_not_get_out_is_told_all_the_same(terminal):
    with Path("/dev/full").open("w") as full:
        done = terminal("export", "models.py:nothing", "-o", "m.onnx", "--json", stdout=full)
    assert done.code == 1 and "has no 'nothing'" in done.err


@FULL
def test_what_people_do_not_hear_stops_nothing(terminal, folder):
    with Path("/dev/full").open("w") as full:
        done = terminal("export", "models.py:with_inputs", "-o", "m.onnx", "--json", stderr=full)
    assert done.code == 0 and done.json["ok"] and (folder / "m.onnx").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_stops_nothing(folder, loud, closed):
    command = f"exec {sys.executable} -m hx {' '.join(WORDS['export'])} --json {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and (folder / "m.onnx").exists()
    assert closed != "2>&-" or json.loads(done.stdout)["ok"]
    assert "Error" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_letters_that_a_console_does_not_have_are_drawn_otherwise(terminal, encoding):
    words = ["inspect", "hx.demo:model"]
    done = terminal(*words, env={"PYTHONIOENCODING": encoding}, encoding=encoding)
    rows = done.out.splitlines()
    assert done.code == 0 and [row.split()[1] for row in rows[2:5]] == ["stem", "body", "shortcut"]
    assert ("µs" if encoding != "ascii" else "us") in done.told and "\\" not in done.told
