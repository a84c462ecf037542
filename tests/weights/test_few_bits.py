"""Weights of eight bits and fewer stay as small in the file as the model has them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx


class OfBytes(nn.Module):
    """The weight of a layer, a scale for each of its rows, and how they are put together."""

    def __init__(self, weigh):
        super().__init__()
        torch.manual_seed(0)
        self.weigh = weigh
        self.register_buffer("weight", torch.randint(-128, 127, (64, 32), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(64) / 100)

    def forward(self, x):
        return self.weigh(self, x)


class OfHalfBytes(nn.Module):
    """Two numbers of four bits in each byte, a scale for each group of eight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("packed", torch.randint(0, 255, (64, 16), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(64, 4, 1) / 100)

    def forward(self, x):
        numbers = torch.stack([self.packed & 15, self.packed >> 4], -1).reshape(64, 4, 8)
        weight = (numbers.to(x.dtype) - 8) * self.scales
        return F.linear(x, weight.reshape(64, 32))


MODELS = [
    OfBytes(lambda m, x: F.linear(x, m.weight.to(x.dtype)) * m.scales),
    OfBytes(lambda m, x: F.linear(x, m.weight.float() * m.scales[:, None])),
    OfBytes(lambda m, x: x @ (m.weight.to(x.dtype) * m.scales.unsqueeze(1)).t()),
    OfBytes(lambda m, x: x @ ((m.weight.float() - 3) * m.scales.mean()).T),
    OfHalfBytes(),
]


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("model", MODELS)
def test_a_weight_keeps_its_bits(model, opset, tmp_path):
    path = tmp_path / "m.onnx"
    program = hx.export(model, torch.randn(3, 32), path, dynamic={"x": {0: "n"}}, opset=opset)
    assert program.proof.ok
    numbers = 64 * 32
    assert path.stat().st_size < 3 * numbers  # as floats, they are four times as many bytes
    x = torch.randn(5, 32)
    torch.testing.assert_close(program.run(x), model(x))


def test_what_is_no_weight_is_worked_out_beforehand():
    few = torch.arange(8, dtype=torch.int8)
    program = hx.export(lambda x: x * (few.float() * 0.5 + 1), torch.randn(3, 8))
    assert [node.op_type for node in program.model.graph] == ["Mul"]
