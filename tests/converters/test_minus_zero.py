"""Zeros that come out of sums: PyTorch's are never minus zeros, onnxruntime's may be."""

import pytest
import torch

import hx

ASKED = {
    "angle of a point": lambda x: torch.atan2(x[..., 0].abs(), x.sum(-1)),
    "angle above or below": lambda x: torch.atan2(x.sum(-1), -1 - x[..., 0].abs()),
    "angle of an inner product": lambda x: torch.atan2(x[..., 0], (x * torch.ones(3)).sum(-1)),
    "of the other sign": lambda x: torch.atan2(-x.sum(-1), -1 - x[..., 0].abs()),
    "sign": lambda x: torch.signbit(x.mean(-1)),
    "sign of a negative": lambda x: torch.signbit(-x.mean(-1)),
    "sign of a running sum": lambda x: torch.signbit(x.cumsum(-1)),
    "sign that is copied": lambda x: torch.copysign(x[..., 0] + 2, x.sum(-1)),
    "argument": lambda x: torch.complex(x.sum(-1), x[..., 0]).angle(),
    "picked, in another form": lambda x: torch.signbit(x.sum(0)[:, None].mT[:, 1:]),
    "of halves": lambda x: torch.signbit(x.half().sum(-1)),
    "of float64": lambda x: torch.atan2(x[..., 0].double(), x.double().sum(-1)),
    "of the numbers themselves": lambda x: torch.atan2(x[..., 0], x[..., 1]),
    "of negatives themselves": lambda x: torch.signbit(-x),
}


@pytest.mark.parametrize("how", ASKED)
def test_the_sign_of_a_sum_of_minus_zeros(how):
    forward = ASKED[how]
    program = hx.export(forward, torch.randn(2, 4, 3), None, dynamic={"x": {0: "n"}})
    for x in (torch.full((3, 4, 3), -0.0), torch.zeros(1, 4, 3), torch.randn(2, 4, 3) * 9 - 1):
        torch.testing.assert_close(program.run(x), forward(x))


def test_the_sign_of_a_sum_of_many_minus_zeros():
    program = hx.export(lambda x: torch.signbit(x.sum(1)), torch.randn(2, 70_000), None)
    assert not program.run(torch.full((2, 70_000), -0.0)).any()
    assert program.run(torch.full((2, 70_000), -1e-30)).all()
