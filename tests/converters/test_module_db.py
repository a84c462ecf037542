"""PyTorch's list of modules, the first sample of each: the whole is tests/suites/module_db.py."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_first_sample_of_every_module(tmp_path):
    words = ["--limit", "1", "--jobs", "1", "--out", str(tmp_path)]  # other tests run beside it
    command = [sys.executable, "-m", "tests.suites.module_db", *words]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    (file,) = tmp_path.glob("*.json")
    kinds = {r["name"]: r["kind"] for r in json.loads(file.read_text())}
    off = {name: kind for name, kind in kinds.items() if kind not in ("right", "excluded")}
    assert not off, told.stdout
    assert sum(kind == "right" for kind in kinds.values()) > 100
