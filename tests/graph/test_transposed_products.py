"""A transposed matrix beside a vector: onnxruntime's fast way for the two is wrong."""

from __future__ import annotations

import pytest
import torch
import warm_python

import hx

V = torch.randn(5)


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x, v: x.T @ v, torch.randn(5, 3)),
        (lambda x, v: x.mT @ v, torch.randn(2, 5, 3)),
        (lambda x, v: x.transpose(0, 1) @ v, torch.randn(2, 4, 5)),
        (lambda x, v: (x.T * 0.3) @ v, torch.randn(5, 3)),
        (lambda x, v: torch.mv(x.T, v), torch.randn(5, 3)),
        (lambda x, v: torch.addmv(v[:3], x.T, v), torch.randn(5, 3)),
        (lambda x, v: x.T.double() @ v.double(), torch.randn(5, 3)),
        (lambda x, v: v @ x.T, torch.randn(3, 5)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [None, [0]])
def test_a_transposed_matrix_beside_a_vector(function, x, dynamic):
    if dynamic and x.shape[0] != 5:
        dynamic = None
    dynamic = dynamic and {"x": {0: "n"}, "v": {0: "n"}}
    program = hx.export(function, (x, V), dynamic=dynamic)
    x, v = torch.randn_like(x), torch.randn(5)
    torch.testing.assert_close(program.run(x, v), function(x, v))


def test_a_transposed_matrix_beside_a_vector_in_a_branch():
    def function(x, v):
        return torch.cond(v.sum() > 0, lambda x, v: x.T @ v, lambda x, v: x.T @ -v, (x, v))

    program = hx.export(function, (torch.randn(5, 3), V))
    x, v = torch.randn(5, 3), torch.rand(5)
    for given in (v, -v):
        torch.testing.assert_close(program.run(x, given), x.T @ v)


CASTS = """
import torch, hx
from torch import nn

class Turned(nn.Module):
    def __init__(self, order, to):
        super().__init__()
        self.linear, self.order, self.kind = nn.Linear(8, 8, bias=False), order, to
    def forward(self, x):
        x = x.permute(self.order)
        return self.linear(x if self.kind is None else x.to(self.kind))

for order in ((1, 0, 2), (1, 2, 0), (1, 2, 0, 3), (2, 1, 3, 0)):
    for given, to in ((torch.float16, None), (torch.bfloat16, None), (torch.float16, torch.float32),
                      (torch.float64, torch.float32), (torch.float32, torch.float64)):
        model = Turned(order, to).eval().to(to or given)
        x = torch.randn([8] * len(order)).to(given)
        assert hx.export(model, x, opset=17, dynamic={"x": {0: "n"}} if order[-1] else None).proof.ok
print("through")
"""


def test_a_cast_between_a_turned_first_axis_and_a_product():
    """onnxruntime's join of the three ends the process: here it is another one."""
    done = warm_python.run_code(CASTS)
    assert done.returncode == 0 and "through" in done.stdout, done.stderr[-2000:]
