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
