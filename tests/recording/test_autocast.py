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


class Applied(nn.Module):
    """A module or function under autocast."""

    def __init__(self, body, dtype):
        super().__init__()
        self.body, self.dtype = body, dtype

    def forward(self, *x):
        with torch.autocast("cpu", dtype=self.dtype):
            return self.body(*x)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


WHOLE = {
    "einsum": (lambda x: torch.einsum("bij,bkj->bik", x, x.flip(1)), (2, 5, 8)),
    "tensordot": (lambda x: torch.tensordot(x, x, dims=([2], [2])).sum(), (2, 5, 8)),
    "padding": (lambda x: F.pad(x @ x.mT, (2, 2), mode="reflect"), (2, 5, 8)),
    "instance norm": (lambda x: F.instance_norm(x @ x.mT, None, None, torch.ones(5)), (2, 5, 8)),
    "rms norm": (lambda x: F.rms_norm(x @ x.mT, (5,), torch.ones(5)), (2, 5, 8)),
    "prelu": (lambda x: F.prelu(x @ x.mT, torch.full((5,), 0.3)), (2, 5, 8)),
    "attention": (Attending(), (2, 5, 8)),
    "rnn": (nn.RNN(8, 4, batch_first=True), (2, 5, 8)),
    "gru": (nn.GRU(8, 4, batch_first=True, bidirectional=True), (2, 5, 8)),
}


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", WHOLE)
def test_calls_made_of_several_operators(name, dtype, opset):
    """What autocast does beneath a call that has one converter for all of it."""
    body, shape = WHOLE[name]
    body = body.eval() if isinstance(body, nn.Module) else body
    calls = Applied(body, dtype)
    program = hx.export(calls.eval(), torch.randn(shape), dynamic=[{0: "batch"}], opset=opset)
    assert program.proof.ok and not program.report.escapes
