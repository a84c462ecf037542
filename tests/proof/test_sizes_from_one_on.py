"""Models whose results are as many as in the recording from some size on: promised from there."""

import pytest
import torch
from torch.testing import assert_close

import hx

WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0]


def in_three(x):
    return torch.cat([piece * 2 for piece in x.chunk(3)])


def of_three(x):
    first, second, third = x.chunk(3)
    return first.sum() + 2 * second.sum() + 3 * third.sum()


class Scales:
    weights = WEIGHTS


def beside_layers(x):
    return torch.stack([row * w for row, w in zip(x, Scales.weights)]).sum(0)


def first_rows(x):
    return sum(row * w for w, row in zip([1.0, 2.0, 3.0, 4.0, 5.0], x))


def test_it_is_promised_from_there():
    program = hx.export(in_three, (torch.randn(5, 3),), dynamic={"x": {0: "n"}})
    assert program.report.promised == {"n": "n>=2"}  # of four, the third piece is empty
    for n in (2, 3, 4, 5, 6, 7, 8, 64, 300):
        assert_close(program.run(x := torch.randn(n, 3)), in_three(x))


def test_a_model_that_takes_no_other_sizes_needs_no_promise():
    program = hx.export(of_three, (torch.randn(5, 3),), dynamic={"x": {0: "n"}})
    assert not program.report.promised
    for n in (5, 6, 7, 8, 64, 300):
        assert_close(program.run(x := torch.randn(n, 3)), of_three(x))


@pytest.mark.parametrize("model", [first_rows, beside_layers])
def test_no_more_rows_are_taken_than_there_are_numbers_beside(model):
    program = hx.export(model, (torch.randn(5, 3),), dynamic={"x": {0: "n"}})
    low = 5 if program.report.promised else 1
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 64, 300)[low - 1 :]:
        assert_close(program.run(x := torch.randn(n, 3)), model(x))
