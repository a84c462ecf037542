"""PyTorch's list of operators, the first sample of each: the whole is tests/suites/op_db.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_first_sample_of_every_operator(tmp_path):
    words = ["--limit", "1", "--jobs", "1", "--out", str(tmp_path)]  # other tests run beside it
    command = [sys.executable, "-m", "tests.suites.op_db", *words]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    (file,) = tmp_path.glob("*.json")
    results = json.loads(file.read_text())
    kinds = {r["name"]: r["kind"] for r in results if r["kind"] != "excluded"}
    off = {name: kind for name, kind in kinds.items() if kind in ("wrong", "crashed")}
    assert not off, told.stdout
    right = sum(kind == "right" for kind in kinds.values())
    assert right >= 0.95 * len(kinds), told.stdout
