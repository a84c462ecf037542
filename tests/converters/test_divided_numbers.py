"""A number that is divided by a tensor: PyTorch multiplies it with the reciprocal."""

from __future__ import annotations

import pytest
import torch

import hx


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("number", [255.0, 3, 1, True])
def test_every_bit_is_pytorchs(dtype, number):
    program = hx.export(lambda x: number / x, torch.arange(1, 256).to(dtype))
    x = torch.randint(1, 1000, (255,)).to(dtype)
    assert torch.equal(program.run(x), number / x)


def test_a_quotient_of_tensors_is_one_division():
    program = hx.export(lambda x, y: y / x, (torch.rand(9) + 1, torch.rand(9)))
    x, y = torch.rand(9) + 1, torch.rand(9)
    assert torch.equal(program.run(x, y), y / x)
    assert [node.op_type for node in program.model.graph] == ["Div"]


def test_integers_that_come_of_it_are_right():
    def stretched(x):
        low, high = x.amin((1, 2), keepdim=True).float(), x.amax((1, 2), keepdim=True).float()
        return ((x.float() - low) * (255.0 / (high - low))).clamp(0, 255).to(x.dtype)

    program = hx.export(stretched, torch.randint(0, 256, (2, 8, 10, 3), dtype=torch.uint8))
    for _ in range(5):
        x = torch.randint(0, 250, (2, 8, 10, 3), dtype=torch.uint8)
        assert torch.equal(program.run(x), stretched(x))
