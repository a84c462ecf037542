"""Forwards drawn by chance, the same at each run; see tests/suites/random_forwards for more."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def drawing():
    """The generator: it lies in a package that is not installed."""
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("tests.suites.random_forwards")
    finally:
        sys.path.remove(str(ROOT))


@pytest.mark.parametrize(
    ("kind", "count", "most"),
    [
        ("loops", 20, "looped"),
        ("pieces", 20, "looped"),
        ("untils", 20, "looped"),
        ("branches", 20, "joined"),
        ("nested", 10, "looped"),  # which take several times as long
    ],
)
def test_most_are_one_graph_and_none_is_wrong(drawing, kind, count, most, tmp_path):
    found = []
    with torch.no_grad():
        for seed in range(count):
            model, source = drawing.drawn(kind, seed, tmp_path)
            found.append(drawing.outcome(kind, model))
            assert "wrong" not in found[-1] or "told" in found[-1], f"{found[-1]}\n{source}"
    assert sum(what.startswith((most, "plain")) for what in found) > count / 2, found
