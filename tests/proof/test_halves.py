"""Models that take and return float32, and compute in a half in between."""

import pytest
import torch
import warm_python
from torch import nn

import hx


class Mixed(nn.Module):
    """Two outputs: one goes through halves, the other does not."""

    def __init__(self, half: torch.dtype) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(16, 32).to(half), nn.LayerNorm(32)
        self.second = nn.Linear(32, 8).to(half)
        self.half = half

    def forward(self, x):
        y = torch.nn.functional.gelu(self.first(x.to(self.half))).float()
        y = self.second(self.norm(y).to(self.half)).float()
        return y, torch.tanh(x)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_an_output_is_held_to_the_halves_that_it_comes_from(half):
    proof = hx.export(Mixed(half), torch.randn(4, 16), None, dynamic={"x": {0: "n"}}).proof
    assert proof.ok
    through, beside = proof.cases[0].outputs
    assert through.allowed > 1e-3
    assert beside.allowed < 1e-5


def through_a_half(op, input):
    return op.cast(op.cast(op.Tanh(input), torch.float16), torch.float32)


def almost(op, input):
    return op.Mul(op.Tanh(input), 1.0001)


def registry(convert):
    made = hx.Registry.installed()
    made.add(hx.converter("torch.tanh")(convert))
    return made


def test_a_half_that_only_the_graph_has_is_wrong():
    with pytest.raises(hx.VerificationError, match="does not compute what the model computes"):
        hx.export(torch.tanh, torch.randn(4, 16), None, packs=registry(through_a_half))


def test_what_is_beside_the_halves_is_held_to_its_own_digits():
    with pytest.raises(hx.VerificationError, match="output_1") as wrong:
        hx.export(Mixed(torch.float16), torch.randn(4, 16), None, packs=registry(almost))
    through, beside = wrong.value.proof.cases[0].outputs
    assert not through.problem
    assert beside.problem


def test_a_proof_does_not_load_the_compiler_of_pytorch():
    """Which takes seconds, and replaces functions of torch for good."""
    code = (
        "import sys, torch, hx; hx.export(torch.relu, torch.randn(3), None);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert warm_python.run_code(code).returncode == 0
