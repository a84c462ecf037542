"""Whole numbers up to the ends of their dtypes."""

import pytest
import torch

import hx

DIVISIONS = {
    "floor": lambda x, y: x // y,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", DIVISIONS)
def test_whole_numbers_are_divided_right_to_both_ends(name, kind):
    ends = torch.iinfo(kind)
    x = torch.tensor([ends.min, ends.min + 1, -7, -6, 0, 6, 7, ends.max], dtype=kind)[:, None]
    y = torch.tensor([-7, -2, 2, 3, 7, ends.max], dtype=kind)
    program = hx.export(DIVISIONS[name], (x, y))
    assert torch.equal(program.run(x, y), DIVISIONS[name](x, y))


BESIDE = {
    "add": lambda x: x + 300,
    "subtract": lambda x: x - 128,
    "multiply": lambda x: x * 300,
    "less": lambda x: x < 300,
    "equal": lambda x: x == -1,
    "remainder": lambda x: x % 300,
}


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("name", BESIDE)
def test_a_number_that_does_not_fit_beside_a_tensor_loses_its_upper_bits(name, kind):
    x = torch.tensor([-128, -1, 0, 5, 44, 127, 255]).to(kind)
    program = hx.export(BESIDE[name], x)
    assert torch.equal(program.run(x), BESIDE[name](x))
