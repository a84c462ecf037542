"""Every opset from 13 to 26: the same model, valid under onnx's full checker, and right."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx


class Many(nn.Module):
    """Operators whose form changed over the opsets."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.gn, self.ln = nn.GroupNorm(2, 4), nn.LayerNorm(8)
        self.bn.running_mean.normal_()

    def forward(self, x):
        x = F.gelu(self.bn(self.conv(x)))
        x = F.pad(self.gn(x), [1, 1, 0, 0], mode="reflect")[..., 1:-1]
        a, b = F.interpolate(x, scale_factor=2, mode="nearest")[..., :8].split(2, 1)
        y = self.ln(a + F.hardswish(b) + F.mish(a) + F.gelu(b, approximate="tanh"))
        y = y.mean((2, 3)) + y.amax((2, 3)) + y.std((2, 3)) + y.sum((2, 3)).clamp(0, 1)
        scores = torch.softmax(y @ y.t(), -1)
        causal = torch.tril(torch.ones_like(scores)).cumsum(0)
        return y, scores.masked_fill(causal > 0, 0.5), F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("opset", range(13, 27))
def test_one_model_at_every_opset(opset):
    program = hx.export(Many(), torch.randn(2, 3, 8, 8), dynamic={"x": [0]}, opset=opset)
    assert program.proof.ok and program.proof.checked
    assert program.model.graph.opset_imports[""] == opset


def test_an_older_gelu_is_what_onnxruntime_knows_again(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(approximate="tanh"), nn.Linear(4, 4))
    hx.export(model, torch.randn(2, 4), tmp_path / "m.onnx", opset=17)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(tmp_path / "m.onnx", options, ["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert "Tanh" not in [node.op_type for node in nodes]


def test_an_opset_that_nobody_has():
    with pytest.raises(hx.UsageError, match="13 and 26"):
        hx.export(nn.ReLU(), torch.randn(2), opset=12)


def test_what_a_version_cannot_say_names_the_version_that_can():
    @hx.converter("torch.bitwise_and")
    def bitwise_and(op, input, other):
        return op.BitwiseAnd(input, other)

    class Masked(nn.Module):
        def forward(self, x):
            return torch.bitwise_and(x, 3)

    packs = hx.Registry.of(bitwise_and)
    with pytest.raises(hx.Unsupported, match="opset 17 has no BitwiseAnd") as caught:
        hx.export(Masked(), torch.arange(4), opset=17, packs=packs)
    assert "opset=18" in str(caught.value)
    assert "test_opsets.py" in str(caught.value.where)
    hx.export(Masked(), torch.arange(4), opset=18, packs=packs)


def test_a_dtype_that_came_later_than_its_operator():
    class Rounded(nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e4m3fn).float() * 2

    with pytest.raises(hx.Unsupported, match="opset 18 has no float8_e4m3fn") as caught:
        hx.export(Rounded(), torch.randn(3, 4), opset=18)
    assert "opset=19" in str(caught.value)
    assert "test_opsets.py" in str(caught.value.where)
    assert hx.export(Rounded(), torch.randn(3, 4), opset=19).proof.ok


def test_a_word_that_came_later_than_its_attribute():
    class Largest(nn.Module):
        def __init__(self, reduce):
            super().__init__()
            self.reduce = reduce

        def forward(self, x, index, source):
            return x.scatter_reduce(1, index, source, self.reduce)

    args = torch.randn(2, 5), torch.tensor([[0, 4, 0], [1, 1, 3]]), torch.randn(2, 3)
    hx.export(Largest("sum"), args, opset=16)
    with pytest.raises(hx.Unsupported, match="newer opset than 16") as caught:
        hx.export(Largest("amax"), args, opset=16)
    assert "opset=18" in str(caught.value)
    hx.export(Largest("amax"), args, opset=18)


def test_a_refusal_names_the_oldest_opset_that_can_say_the_call():
    class Sums(torch.nn.Module):
        def forward(self, x):
            places = torch.zeros(2, 5, dtype=torch.int64)
            return torch.zeros(5, 5).scatter_add(0, places, x)

    with pytest.raises(hx.Unsupported, match="opset=16 or newer"):
        hx.export(Sums(), torch.randn(2, 5), None, opset=13)
    hx.export(Sums(), torch.randn(2, 5), None, opset=16)


class EightBits(nn.Module):
    """A layer whose weight has eight bits, as torchao's weight-only configurations leave it."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randn(3, 4).to(dtype))
        self.register_buffer("scale", torch.rand(3, 1))

    def forward(self, x):
        short = x.to(self.weight.dtype).reshape(-1, 2).float()
        return x @ (self.weight.t().float() * self.scale.t()), short


@pytest.mark.parametrize("opset", [19, 20, 21, 26])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_floats_of_eight_bits_where_an_operator_does_not_take_them(dtype, opset):
    program = hx.export(EightBits(dtype), torch.randn(2, 4), opset=opset, dynamic={"x": {0: "n"}})
    x = torch.randn(5, 4)
    for mine, real in zip(program.run(x), EightBits(dtype)(x)):
        torch.testing.assert_close(mine, real)
