"""Quantized kernels that saturate: no case is compared on which the model itself is wrong.

Processors without VNNI add pairs of 8-bit products in 16 bits. Any x86 processor does so if the
libraries are told to use AVX2 alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
import warm_python

from hx.proof.differences.float64 import InFloat64

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines,
    reason="this PyTorch has no quantized kernels for the processor",
)

AVX2 = {"FBGEMM_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
CHILD = """
import json, sys, warnings
import torch
from torch import nn
from torch.ao import quantization
import hx
from hx.errors import VerificationError

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.backends.quantized.engine = "fbgemm"
kind, mistake, reduced = sys.argv[1], sys.argv[2], sys.argv[3] == "reduced"


@hx.converter("quantized::linear", cases=[])
def linear(op, X, W_prepack, Y_scale_i, Y_zero_point_i):
    weight, bias = W_prepack.unpack()
    y = op.MatMul(X, op.constant(weight.dequantize().T.contiguous()))
    if mistake != "no bias":
        y = op.Add(y, op.constant(bias))
    return op.Mul(y, 1.02) if mistake == "scale" else y


layer = nn.Linear(8, 4) if kind == "Linear" else nn.Conv3d(4, 3, 2)
nn.init.uniform_(layer.weight, 0.5, 1.0)  # all of one sign: sums grow
nn.init.uniform_(layer.bias, -3.0, 3.0)
shape = (8,) if kind == "Linear" else (4, 3, 4, 3)
model = nn.Sequential(quantization.QuantStub(), layer, quantization.DeQuantStub()).eval()
observer = quantization.MinMaxObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=127 if reduced else 255
)
model.qconfig = quantization.QConfig(observer, quantization.default_weight_observer)
quantization.prepare(model, inplace=True)
x = torch.rand(3, *shape)
model(x)
quantization.convert(model, inplace=True)

large = 16.0 * (torch.rand(64, *shape) < 0.4)  # some sums fit into the output
q, weight, bias = model[0](large), model[1].weight(), model[1].bias()
function = nn.functional.linear if kind == "Linear" else nn.functional.conv3d
wanted = function(q.dequantize(), weight.dequantize(), bias)
wanted = model[2](torch.quantize_per_tensor(wanted, model[1].scale, model[1].zero_point, q.dtype))
told = {"saturates": not torch.allclose(model(large), wanted, atol=1.5 * model[1].scale)}
packs = None
if mistake != "plain":
    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(linear)
try:
    program = hx.export(model, x, dynamic=[{0: "n"}], packs=packs)
except VerificationError as error:
    told["error"] = str(error)
else:
    told["cases"] = [case.name for case in program.proof.cases]
    told["messages"] = [str(each) for each in program.report.messages]
print(json.dumps(told))
"""


def exported(kind, mistake="plain", steps="reduced", environment=None):
    """Export a quantized layer in another process; return what came of it."""
    words = (CHILD, kind, mistake, steps)
    if environment:  # the libraries read it as they are loaded
        command = [sys.executable, "-c", *words]
        settings = {**os.environ, **environment}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=200)
    else:
        done = warm_python.run_code(*words)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def saturating(*args):
    told = exported(*args, environment=AVX2)
    if not told["saturates"]:
        pytest.skip("the kernels of this processor do not saturate, even with AVX2 alone")
    return told


@pytest.mark.parametrize("kind", ["Linear", "Conv3d"])
def test_large_values_are_compared_unless_the_model_saturates(kind):
    here, there = exported(kind), exported(kind, environment=AVX2)
    for told in (here, there):
        assert "error" not in told and {"recorded", "fresh"} <= set(told["cases"])
        assert ("large values at n=3" in told["cases"]) is not told["saturates"]
        noted = any("not compared on large values at n=3" in text for text in told["messages"])
        assert noted is told["saturates"]


@pytest.mark.parametrize("environment", [{}, AVX2], ids=["as it is", "AVX2"])
@pytest.mark.parametrize("mistake", ["no bias", "scale"])
def test_a_wrong_converter_of_a_quantized_kernel_is_found(mistake, environment):
    told = exported("Linear", mistake, environment=environment)
    assert "recorded" in told["error"].partition("inputs: wrong")[0]


def test_the_same_converter_without_a_mistake_is_right():
    assert "error" not in exported("Linear", "none")


def test_a_refusal_says_that_the_model_itself_saturates():
    """These activations use all 8 bits from the start."""
    told = saturating("Linear", "plain", "all")
    assert "results of quantized::linear differ from their float64 versions" in told["error"]


def test_rounding_to_steps_excuses_no_difference(monkeypatch):
    """The allowance does not ask for float64 where a model has quantized tensors."""
    import hx

    seen = []
    run = InFloat64.run
    monkeypatch.setattr(
        InFloat64, "run", lambda self, case: seen.append((self, run(self, case))) or seen[-1][1]
    )

    def model(x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()

    assert hx.export(model, torch.randn(3, 8)).proof.ok
    assert any(found.outputs for exact, found in seen if exact._quantized)
    assert not any(found.outputs for exact, found in seen if not exact._quantized)
