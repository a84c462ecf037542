"""A mode around a run leaves PyTorch's compiler as it was, also if the run is what loads it."""

from __future__ import annotations

import textwrap

import pytest
import warm_python

MODELS = {
    "cond": "torch.cond(x.min() < 0, lambda x: x + 1, lambda x: x * 2, (x,))",
    "while_loop": """torch._higher_order_ops.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y @ y / 3), (torch.tensor(0), x)
    )""",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", ["RunMode(ResultLimit(1e9))", "RunMode(Float64Mode())", "Watch()"])
def test_the_first_code_that_compiles_itself_does_so_afterwards_too(model, mode):
    program = f"""
import sys
import torch
from hx.proof.differences.halves import Watch
from hx.torchworld.modes.float64_mode import Float64Mode
from hx.torchworld.modes.result_limit import ResultLimit
from hx.torchworld.modes.run_mode import RunMode

def model(x):
    return {MODELS[model]}

x = torch.randn(3, 3)
assert "torch._dynamo" not in sys.modules
with {mode}:
    model(x)
model(x)
"""
    require_success(program)


def test_a_loop_whose_rounds_a_proof_has_counted_is_compiled_afterwards():
    """A difference in the first rounds makes the proof count them, in a mode of its own."""
    require_success("""
import torch
import hx
from hx.proof.differences.often import _Counting

def model(x):
    return torch._higher_order_ops.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y @ y.mT / 3), (torch.tensor(0), x)
    )

x = torch.randn(2, 3, 3)
program = hx.export(model, (x,), dynamic={"x": {0: "n"}})
with _Counting() as seen:
    program._subject.runner.results({"x": x})
assert seen.count > 3
model(x)
""")


def require_success(program):
    told = warm_python.run_code(textwrap.dedent(program))
    assert told.returncode == 0, told.stderr[-2000:]
