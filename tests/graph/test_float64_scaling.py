"""Models of float64 keep their digits: onnxruntime has a fast way that does not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx


def scaled_behind(x):
    return x @ x.mT / 3


def scaled_before(x):
    return (x * 0.3) @ x.mT


def transposed_between(x):
    return x @ (x * 0.3).transpose(-1, -2)


def in_a_loop(x):
    return torch._higher_order_ops.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y @ y.mT / 3), (torch.tensor(0), x)
    )[1]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.MultiheadAttention(33, 3, batch_first=True).double()

    def forward(self, x):
        return self.layer(x, x, x)[0]


@pytest.mark.parametrize(
    "model", [scaled_behind, scaled_before, transposed_between, in_a_loop, Attention().eval()]
)
def test_all_digits_of_products(model, tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 33, 33, dtype=torch.float64) / 6
    program = hx.export(model, (x,), tmp_path / "m.onnx", dynamic={"x": {0: "n"}})
    found, expected = program.run(x[:1]), model(x[:1])
    assert (found - expected).abs().max() < 1e-13 * expected.abs().max()


def signs(model, x):
    program = hx.export(model, (x,), verify=False)
    return sum(node.op_type == "Neg" for node in program.model.graph)


def test_nothing_is_added_where_nothing_is_rounded():
    x = torch.randn(4, 4, dtype=torch.float64)
    assert signs(scaled_behind, x) == signs(scaled_before, x) == 1
    assert signs(scaled_behind, x.float()) == signs(scaled_before, x.float()) == 0
    assert signs(lambda x: (x @ x) / 8, x) == signs(lambda x: (x / 3 + 1) @ x, x) == 0
