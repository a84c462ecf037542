"""Memory: weights pass through without being held, and a file is run in what is left."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from headers import packed
from language import IDS, Language, on_meta
from torch import nn

import hx
from hx.budget import BUDGET
from hx.errors import ExportError
from hx.free_memory import FreeMemory

own_memory = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc tells how much memory is a process's own"
)

# A first export takes some 35 MB, whatever it holds.
SCRIPT = """
import sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from torch import nn
import hx
from hx.bench.memory import peak
from hx.inputs.meta_models import hollow

def export(model, x, path, weights):
    hx.export(model, x, path, weights=weights, dtype=sys.argv[3] or None, verify=False,
              external_data=True)

small = nn.Linear(300, 300)
weights = Path(sys.argv[1]).with_name("small.safetensors")
save_file(small.state_dict(), weights)
export(small, torch.ones(1, 300), weights.with_suffix(".onnx"), weights)
with hollow():
    model = nn.Sequential(*[nn.Linear(3000, 3000, bias=False) for _ in range(4)])
print(peak(lambda: export(model, torch.ones(1, 3000), sys.argv[2], sys.argv[1])))
"""


@pytest.fixture
def sparse(tmp_path):
    """144 MB of zeros that take no room on the disk."""
    size = 3000 * 3000 * 4
    header = {
        f"{i}.weight": {
            "dtype": "F32",
            "shape": [3000, 3000],
            "data_offsets": [i * size, (i + 1) * size],
        }
        for i in range(4)
    }
    path = tmp_path / "sparse.safetensors"
    content = packed(header)
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(len(content) + 4 * size)
    return path


@pytest.mark.parametrize("dtype", ["", "float16"])
def test_weights_pass_through_without_being_held(dtype, sparse, tmp_path):
    words = [sys.executable, "-c", SCRIPT, str(sparse), str(tmp_path / "m.onnx"), dtype]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (tmp_path / "m.onnx").exists()
    assert int(done.stdout) < 18 << 20  # half of one weight


def with_memory(monkeypatch, left):
    monkeypatch.setattr("hx.free_memory.free_memory", lambda: FreeMemory(left, left))


def test_a_proof_without_enough_memory_is_an_error_and_writes_no_file(
    language_file, tmp_path, monkeypatch, limit
):
    limit(BUDGET.bytes, optimised_weights=2)
    with_memory(monkeypatch, 100 << 20)
    path = tmp_path / "m.onnx"
    with pytest.raises(ExportError, match="not enough memory for the proof") as error:
        hx.export(on_meta(Language), (IDS,), path, weights=language_file, external_data=True)
    assert "0.1 GB are left" in error.value.why and not path.exists()


@pytest.mark.parametrize("share", [1, 4])  # of the limit: with optimisations, and without
def test_free_memory_changes_neither_the_file_nor_the_verdict(share, tmp_path, monkeypatch, limit):
    """Little memory gives the same file and verdict, or an error and no file."""
    model, x = nn.Linear(300, 300).eval(), torch.ones(2, 300)
    limit(BUDGET.bytes, optimised_weights=300 * 301 * 4 // share + 1000)
    made = {}
    for left in (16 << 30, 700 << 20, 1 << 20):
        with_memory(monkeypatch, left)
        path = tmp_path / f"{left}.onnx"
        try:
            proof = hx.export(model, x, path, dynamic={"input": {0: "n"}}).proof
            cases = [(c.name, [o.max_abs for o in c.outputs]) for c in proof.cases]
            made[left] = path.read_bytes(), proof.ok, proof.plain, cases
        except ExportError as error:
            assert "not enough memory" in str(error) and not path.exists()
    assert list(made) == [16 << 30, 700 << 20]
    assert made[16 << 30] == made[700 << 20]
    assert made[16 << 30][1:3] == (True, share > 1)


def test_larger_weights_run_without_optimisations(language_file, tmp_path, limit):
    limit(BUDGET.bytes, optimised_weights=1024)
    path = tmp_path / "m.onnx"
    program = hx.export(on_meta(Language), (IDS,), path, weights=language_file, external_data=True)
    assert program.proof.ok and program.proof.plain
    assert "without onnxruntime's optimisations" in program.proof.summary()


@own_memory
def test_without_optimisations_a_file_is_run_one_weight_at_a_time(sparse, tmp_path):
    script = """
import sys
from pathlib import Path
import torch
from torch import nn
import hx
from hx.inputs.meta_models import hollow
from hx.runtime import Session

def own():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10

with hollow():
    model = nn.Sequential(*[nn.Linear(3000, 3000, bias=False) for _ in range(4)])
x = torch.ones(1, 2, 3000)
hx.export(model, x, sys.argv[2], weights=sys.argv[1], verify=False, external_data=True)
before = own()
session = Session(Path(sys.argv[2]), optimized=False)
session.run({"input": x})
print(own() - before)
"""
    words = [sys.executable, "-c", script, str(sparse), str(tmp_path / "m.onnx")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50 << 20  # of four weights of 36 MB


def test_the_memory_that_is_left_is_that_of_the_limit():
    script = """
import resource
from hx.free_memory import free_memory
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
print(free_memory().addresses)
resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28))
print(free_memory().memory)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    addresses, memory = map(int, done.stdout.split())
    assert 0 < memory < 1 << 28 < addresses < 1 << 30
