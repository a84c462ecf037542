"""torch.autocast inside of a model: the casts that PyTorch makes unseen are in the graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.runtime import Session


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 6)
        self.last = nn.LayerNorm(6)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.norm(self.conv(x)).relu().flatten(2).transpose(1, 2)
            y = self.last(self.linear(y))
            return F.scaled_dot_product_attention(y, y, y)


def test_matrices_in_the_shorter_dtype(tmp_path):
    path = tmp_path / "m.onnx"
    x = torch.randn(2, 3, 6, 6)
    program = hx.export(Mixed().eval(), (x,), path, dynamic={"x": {0: "n"}})
    assert str(program.model.graph.outputs[0].dtype) == "BFLOAT16"
    assert program.proof.ok and not program.report.escapes


def full(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.mT
        loss = F.mse_loss(y, y * 2)
        both = torch.cat([y, x.float()], -1)
        with torch.autocast("cpu", enabled=False):
            plain = x @ x.mT
        return y, loss, both, plain


def test_losses_in_full_and_joins_in_the_widest(tmp_path):
    path, x = tmp_path / "m.onnx", torch.randn(2, 3, 4)
    hx.export(full, (x,), path, verify=False)
    x = torch.randn(2, 3, 4)
    found = Session(path).run({"x": x})
    for mine, real in zip(found, full(x), strict=True):
        assert mine.dtype == real.dtype
        torch.testing.assert_close(mine, real, rtol=1.6e-2, atol=1e-2)
    torch.testing.assert_close(found[-1], full(x)[-1])


@pytest.mark.parametrize("inside", [False, True])
def test_a_dtype_of_its_own_wins_where_it_is_asked_for(inside):
    def model(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            return (x.double() @ x.double().mT).sum()

    program = hx.export(model, (torch.randn(3, 4),))
    assert str(program.model.graph.outputs[0].dtype) == "DOUBLE"
