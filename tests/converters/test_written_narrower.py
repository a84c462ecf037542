"""Whole numbers that are written into fewer bits are computed in as many as PyTorch takes."""

import pytest
import torch
from torch import nn

import hx


class Does(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x, y):
        return self.what(x.clone(), y)


IN_PLACE = {
    "clamp_": lambda x, y: x.clamp_(max=y),
    "clamp_min_": lambda x, y: x.clamp_min_(y),
    "floor_divide_": lambda x, y: x.floor_divide_(y),
    "remainder_": lambda x, y: x.remainder_(y),
    "fmod_": lambda x, y: x.fmod_(y),
    "pow_": lambda x, y: x.pow_(y.abs() % 3),
    "add_": lambda x, y: x.add_(y),
    "eq_": lambda x, y: x.eq_(y),
    "index_add_": lambda x, y: x.index_add_(0, y % 3, x.clone()),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("name", IN_PLACE)
def test_an_operand_that_does_not_fit_where_the_result_goes(name, dtype):
    model = Does(IN_PLACE[name])
    program = hx.export(model, (torch.tensor([10, 200, 30], dtype=dtype), torch.tensor([3, 7, 2])))
    x = torch.tensor([10, 200, 30], dtype=dtype)
    for large in ([258, 7, 300], [2**40 + 3, 257, -2]):
        y = torch.tensor(large)
        assert torch.equal(program.run(x, y), model(x, y)), large


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "maximum"])
def test_out_of_fewer_bits(name):
    function = getattr(torch, name)
    model = Does(lambda x, y: function(x, y, out=torch.empty(3, dtype=torch.int32)))
    program = hx.export(model, (torch.tensor([10, 20, 30]), torch.tensor([3, 7, 2])))
    x, y = torch.tensor([2**33 + 5, 2**34, -9]), torch.tensor([2**35, 2**33, 2**40])
    assert torch.equal(program.run(x, y), model(x, y))


def test_relu_of_whole_numbers_keeps_all_their_digits():
    model = Does(lambda x, y: torch.relu(x))
    program = hx.export(model, (torch.tensor([1, -2, 3]), torch.tensor([0])))
    x = torch.tensor([2**53 + 1, -(2**53) - 1, 0])
    assert torch.equal(program.run(x, torch.tensor([0])), torch.relu(x))
