"""Products and sums of whole numbers that leave the range: PyTorch keeps the lower bits."""

import pytest
import torch

import hx

TAKEN = {
    "along an axis": lambda x: x.prod(1),
    "along the first axis, kept": lambda x: x.prod(0, keepdim=True),
    "of all": lambda x: x.prod(),
    "of bytes": lambda x: (x & 3).byte().prod(1),
    "in 32 bits": lambda x: x.prod(1, dtype=torch.int32),
    "in 16 bits": lambda x: x.prod(1, dtype=torch.int16),
    "in bytes": lambda x: x.prod(1, dtype=torch.uint8),
    "of true and false": lambda x: (x > 0).prod(1),
    "of true and false as numbers": lambda x: (x > 0).long().prod(1),
    "of fractions": lambda x: (x % 5).float().prod(1, dtype=torch.int32),
    "sum in 32 bits": lambda x: x.sum(1, dtype=torch.int32),
    "sum in bytes": lambda x: x.sum(dtype=torch.uint8),
}


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("size", [1, 3, 12])
def test_whole_numbers_that_leave_the_range(how, size):
    forward = TAKEN[how]
    programs = [
        hx.export(forward, torch.ones(2, size, dtype=torch.int64), None, dynamic=dynamic)
        for dynamic in (None, {"x": {0: "n", 1: "k"}})
    ]
    x = torch.randint(2**30, 2**31, (2, size)) * 2 + 1
    for program in programs:
        assert torch.equal(program.run(x), forward(x))
    for shape in ((3, 1), (1, 0), (0, 3), (2, 7), (4, 33)):
        x = torch.randint(2**30, 2**31, shape) * 2 + 1
        assert torch.equal(programs[1].run(x), forward(x))


def test_few_numbers_take_one_node():
    program = hx.export(lambda x: x.prod(1), torch.ones(2, 5, dtype=torch.uint8), None)
    assert [n.op_type for n in program.model.graph] == ["Cast", "ReduceProd"]
