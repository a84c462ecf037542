"""What is beyond tolerance, and as near to the model in float64 as the model itself, is right."""

from __future__ import annotations

import pytest
import torch
from called import Plain, asked
from torch import nn
from torch.nn.functional import interpolate

import hx
from hx import converter
from hx.errors import VerificationError
from hx.proof.differences import compare

NOISE = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))


def enlarged(x):
    return interpolate(x, size=(150, 150), mode="bilinear")


def test_places_that_both_round_are_right_and_the_report_says_how():
    """PyTorch and onnxruntime each round where between two elements a new one lies."""
    program = hx.export(Plain(enlarged), NOISE, None)
    told = program.proof.summary()
    assert program.proof.ok and "as near to what float64 gives as the model itself" in told
    assert any(output.as_near for case in program.proof.cases for output in case.outputs)
    assert '"as_near": true' in program.report.to_json()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(107, 160), (90, 140)])
@pytest.mark.parametrize("seed", [0, 1])
def test_places_that_pytorch_happens_to_round_better(seed, size, mode):
    """onnxruntime divides by a factor in float32, and is off by more with each place of an axis."""
    torch.manual_seed(seed)
    model = Plain(lambda x: interpolate(x, size=size, mode=mode))
    for x in (torch.rand(1, 3, 100, 150), torch.randn(1, 3, 100, 150)):
        program = hx.export(model, x)
        assert program.proof.ok
        assert (program.run(x) - model(x)).abs().max() < 3e-4


class Enlarging(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x):
        return enlarged(self.conv(x))


def test_of_a_model_with_weights_a_copy_is_asked():
    model = Enlarging().eval()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    assert hx.export(model, NOISE, None).proof.ok
    for name, t in model.state_dict().items():
        assert t.dtype == torch.float32 and torch.equal(t, before[name])


class Single(Enlarging):
    """There is one of it: its copy is itself."""

    def __deepcopy__(self, memo):
        return self


def test_a_model_that_cannot_be_copied_runs_in_float64_and_stays_as_it_is():
    model = Single().eval()
    program = hx.export(model, NOISE * 1e3, None)
    assert any(output.as_near for case in program.proof.cases for output in case.outputs)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@converter("torch.ops.aten.upsample_bilinear2d")
def a_little_off(op, input, output_size, align_corners, scales_h=None, scales_w=None):
    y = op.Resize(input, None, None, op.sizes(output_size), axes=[2, 3], mode="linear")
    return op.Mul(y, 1 + 1e-4)


def test_a_mistake_is_no_rounding():
    with pytest.raises(VerificationError):
        asked(Plain(enlarged), NOISE, a_little_off)


def test_nearness_is_that_of_the_worst_and_of_the_mean():
    exact = torch.linspace(1, 2, 1000, dtype=torch.float64)
    want = (exact + 1e-7 * torch.sin(exact * 1e5)).float()
    assert compare.as_near((exact + 2e-7).float(), want, exact)
    assert not compare.as_near((exact + 2e-6).float(), want, exact)
    one = exact.clone()
    one[5] += 1e-5
    assert not compare.as_near(one.float(), want, exact)
    one[5] = float("nan")
    assert not compare.as_near(one.float(), want, exact)


def mean_of_states(x):
    h, outs = torch.zeros(4), []
    for _ in range(x.shape[0]):
        h = torch.tanh(h * 0.5 + x[0])
        outs.append(h)
    return torch.stack(outs).mean(0)


def test_what_many_rounds_add_up_may_be_off_by_more():
    """Several hundred numbers that are alike: the file adds them one by one."""
    program = hx.export(mean_of_states, torch.randn(5, 4), dynamic={"x": {0: "n"}})
    assert "n=708" in [case.name for case in program.proof.cases]


def test_a_round_that_is_off_by_little_is_found():
    @hx.converter("torch.tanh", cases=[])
    def nearly(op, input):
        return op.Mul(op.Tanh(input), op.constant(1 + 3e-5, input.dtype))

    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(nearly)
    with pytest.raises(hx.VerificationError):
        hx.export(mean_of_states, torch.randn(5, 4), dynamic={"x": {0: "n"}}, packs=packs)
