"""Small models drawn by chance, the same at each run; see tests/suites/random_models for more."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest
import warm_python


@pytest.fixture(scope="module")
def drawn():
    """The generator: it lies in a package that is not installed."""
    root = str(Path(__file__).parents[2])
    sys.path.insert(0, root)
    try:
        yield importlib.import_module("tests.suites.random_models")
    finally:
        sys.path.remove(root)


@pytest.mark.parametrize("first", range(0, 120, 10))
def test_ten_models(drawn, first):
    for seed in range(first, first + 10):
        model = drawn.draw(seed)
        outcome = drawn.check(model)
        assert outcome.kind not in drawn.BAD, f"{outcome.detail}\nat {outcome.at}\n{model}"


def test_a_model_is_the_same_each_time_it_is_drawn(drawn):
    assert str(drawn.draw(7)) == str(drawn.draw(7)) != str(drawn.draw(8))


def test_what_is_wrong_is_seen_and_cut_down(drawn, monkeypatch):
    model = next(
        m
        for m in map(drawn.draw, range(100))
        if len(m.lines) > 3 and drawn.check(m).kind == "right"
    )
    lines = [*model.lines, "extra = torch.ones(3) + torch.ones(()).numpy().item()"]
    broken = dataclasses.replace(model, lines=lines, outputs=["extra", *model.outputs])
    # What the file is held against is off by one: every model with that output is wrong.
    judge, real = drawn.judge, drawn.judge.flat
    monkeypatch.setattr(
        judge, "flat", lambda result: [t + 1 if t.shape == (3,) else t for t in real(result)]
    )
    assert drawn.check(broken).kind == "wrong"
    small = drawn.shrunk(broken)
    assert small.lines == lines[-1:] and small.outputs == ["extra"]


def test_the_command_counts_what_came_of_each():
    words = ["tests.suites.random_models", "--seed", "5", "--count", "3"]
    done = warm_python.run(*words, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    counts = [part.split() for part in done.stdout.strip().split(", ")]
    assert sum(int(n) for n, _ in counts) == 3
