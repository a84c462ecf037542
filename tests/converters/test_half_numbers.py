"""Half floats beside numbers: some of PyTorch's functions round the number, and some do not."""

import math

import pytest
import torch

import hx

HALVES = [torch.float16, torch.bfloat16]

# A number that float16 has as infinity, as nothing, or with a few digits, and what it meets.
BEYOND = {
    "times a large one": (lambda x: x * 1e6, 1e-3),
    "times a small one": (lambda x: x * 1e-7, 1e3),
    "times a small one, in place": (lambda x: x.clone().mul_(1e-6), 1e3),
    "by a large one": (lambda x: x / 1e5, 1e4),
    "by a whole one": (lambda x: x / 100_000, 1e4),
    "by a small one": (lambda x: x / 1e-6, 1e-3),
    "a large one by it": (lambda x: 1e5 / x, 100),
    "a small one by it": (lambda x: 1e-5 / x, 1e-3),
    "a tensor of one": (lambda x: x * torch.tensor(1e6), 1e-3),
    "by a tensor of one": (lambda x: x / torch.tensor(1e5), 1e4),
    "one that the graph computes": (lambda x: x * (x.float().max() * 0 + 1e6), 1e-3),
    "there and back": (lambda x: x * (1 / 65536) * 65536, 1),
    "whole parts": (lambda x: torch.div(x, 1e-6, rounding_mode="trunc"), 1e-3),
}


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", BEYOND)
def test_a_number_that_no_half_holds_is_not_rounded(name, half):
    function, scale = BEYOND[name]
    torch.manual_seed(0)
    x = ((torch.rand(64) + 0.5) * scale).to(half)
    found, expected = hx.export(function, x).run(x), function(x)
    assert found.dtype == half and expected.isfinite().all()
    unit = torch.finfo(half).eps * expected.float().abs() + torch.finfo(half).smallest_normal
    assert ((found.float() - expected.float()).abs() <= unit).all()


def test_a_size_that_no_half_holds_is_not_rounded():
    x = torch.rand(4, 3).half()
    program = hx.export(lambda x: x * 1000 / x.numel(), x, dynamic={"x": {0: "n"}})
    x = torch.rand(30_000, 3).half()
    torch.testing.assert_close(program.run(x), x * 1000 / x.numel())


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("number", [0.1, 1 / 3, 7])
def test_a_remainder_is_that_of_the_rounded_number(number, half):
    x = torch.linspace(-100, 100, 999).to(half)
    assert torch.equal(hx.export(lambda x: x % number, x).run(x), x % number)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_a_quotient_is_cut_before_it_is_rounded(half):
    x = torch.linspace(-1000, 1000, 999).to(half)

    def cut(x):
        return torch.div(x, 0.1, rounding_mode="trunc")

    assert torch.equal(hx.export(cut, x).run(x), cut(x))


def test_other_numbers_need_nothing_more():
    for number in (0.125, 1e4, 0, math.inf):
        program = hx.export(lambda x, number=number: x * number, torch.rand(3).half())
        assert [node.op_type for node in program.model.graph] == ["Mul"]
