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


SHIFTS = {
    "left": lambda x, n: torch.bitwise_left_shift(x, n),
    "right": lambda x, n: torch.bitwise_right_shift(x, n),
    "<<": lambda x, n: x << n,
    ">>": lambda x, n: x >> n,
    "<<=": lambda x, n: (x | (x * n * 0)).bitwise_left_shift_(n),
    ">>=": lambda x, n: (x | (x * n * 0)).bitwise_right_shift_(n),
}
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]


def numbers_of(kind):
    ends = torch.iinfo(kind)
    return torch.tensor([ends.min, ends.min + 1, 0, 1, 5, ends.max]).to(kind)


@pytest.mark.parametrize("kind", [*SIGNED, torch.uint8])
@pytest.mark.parametrize("name", SHIFTS)
def test_bits_are_shifted_by_any_number(name, kind):
    x, bits = numbers_of(kind), torch.iinfo(kind).bits

    def by_all(x):
        return [SHIFTS[name](x, n) for n in (0, 1, bits - 2, bits - 1, bits, bits + 1, -1, 256)]

    program = hx.export(by_all, x)
    for found, expected in zip(program.run(x), by_all(x)):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", [*SIGNED, torch.uint8])
@pytest.mark.parametrize("name", SHIFTS)
def test_bits_are_shifted_by_a_tensor(name, kind):
    x, bits = numbers_of(kind)[:, None], torch.iinfo(kind).bits
    program = hx.export(SHIFTS[name], (x, torch.ones(3, dtype=kind)), dynamic={"n": {0: "places"}})
    counts = torch.tensor([0, 1, bits - 2, bits - 1, bits, bits + 1, 100, -1]).to(kind)
    assert torch.equal(program.run(x, counts), SHIFTS[name](x, counts))
