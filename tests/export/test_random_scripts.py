"""Scripts drawn by chance, the same at each run; see tests/suites/random_scripts for more."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
import warm_python

import hx

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def drawn():
    """The generator: it lies in a package that is not installed."""
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("tests.suites.random_scripts")
    finally:
        sys.path.remove(str(ROOT))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_ten_scripts(drawn, first, tmp_path):
    for seed in range(first, first + 10):
        what = drawn.outcome(drawn.scripted(seed, tmp_path), seed)
        assert not what.startswith("wrong"), f"{what}\n{drawn.Drawn(seed).source}"


def test_ten_that_python_runs(drawn, tmp_path):
    for seed in range(10):
        what = drawn.outcome(drawn.plain(seed, tmp_path), seed)
        assert not what.startswith("wrong"), f"{what}\n{drawn.Drawn(seed).source}"


def test_a_file_of_another_script_is_wrong(drawn, tmp_path):
    one, other = drawn.scripted(5, tmp_path), drawn.scripted(6, tmp_path)
    program = hx.export(one, torch.randn(4), None, dynamic={"x": {0: "t"}})
    assert drawn.compared(program, one) == "right"
    assert drawn.compared(program, other).startswith("wrong")


def test_the_command_counts_what_came_of_each():
    words = ["tests.suites.random_scripts", "--seed", "5", "--count", "3"]
    done = warm_python.run(*words, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert sum(int(part.split()[0]) for part in done.stdout.strip().split(", ")) == 3
