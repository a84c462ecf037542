"""Sums of many numbers, which PyTorch rounds once: running ones, and those of whole axes."""

import pytest
import torch

import hx

RUNNING = {
    "sum": (torch.cumsum, lambda: torch.rand(2, 5000)),
    "product": (torch.cumprod, lambda: torch.empty(2, 5000).uniform_(0.99, 1.01)),
    "logarithm": (torch.logcumsumexp, lambda: torch.rand(2, 5000)),
}
HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("name", RUNNING)
def test_a_running_result_is_carried_in_more_digits(name, dtype):
    function, numbers = RUNNING[name]
    torch.manual_seed(0)
    x = numbers().to(dtype)
    program = hx.export(lambda x: function(x, 1), x, dynamic={"x": {1: "n"}})
    for n in (5000, 3000):
        found, expected = program.run(x[:, :n]).double(), function(x[:, :n], 1).double()
        assert ((found - expected).abs() <= torch.finfo(dtype).eps * expected.abs()).all()


def test_complex_numbers_are_carried_in_more_digits_too():
    torch.manual_seed(0)
    x = torch.polar(torch.ones(3000), torch.rand(3000) / 100)

    def along(x):
        return torch.cumsum(x, 0), torch.cumprod(x, 0)

    for found, expected in zip(hx.export(along, x).run(x), along(x)):
        assert torch.equal(found, expected)


def test_what_leaves_the_range_on_the_way_comes_back():
    x = torch.tensor([3e38, 3e38, -3e38, 1])
    assert torch.equal(hx.export(lambda x: x.cumsum(0), x).run(x), x.cumsum(0))
