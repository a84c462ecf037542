"""Sizes that are asked through tensors which sizes alone fill: positions, ones, and what adds them up."""

from __future__ import annotations

import pytest
import torch
from across import exported, refused
from torch import arange, nn, ones
from torch.testing import assert_close

PLACES = arange(4096)[None]
THROUGH = {
    "the last position": lambda x: arange(x.shape[1])[-1] >= 30,
    "the largest one": lambda x: torch.max(arange(x.shape[1])) + 1 > 30,
    "its number": lambda x: arange(x.shape[1]).max().item() + 1 > 30,
    "behind others": lambda x: int(arange(5, 5 + x.shape[1])[None].amax()) >= 35,
    "as many rows": lambda x: arange(x.shape[1])[None].expand(x.shape[0], -1).max() >= 30,
    "counted down": lambda x: arange(x.shape[1] - 1, -1, -1)[0] >= 30,
    "every other one": lambda x: (arange(x.shape[1])[:, None] * 2 + 1)[-1] > 60,
    "a buffer of them": lambda x: PLACES[:, : x.shape[1]].max() >= 30,
    "ones that are counted": lambda x: ones(x.shape).sum(-1).max() > 30,
    "a mask of them": lambda x: ones(x.shape, dtype=torch.bool).long().sum(1)[0] > 30,
    "ones that are added up": lambda x: ones(x.shape[:2]).cumsum(1).max() > 30,
    "all positions": lambda x: arange(x.shape[1]).sum() >= 465,
    "any of them": lambda x: (arange(x.shape[1]) >= 30).any(),
    "all of them": lambda x: not (arange(x.shape[1]) < 30).all(),
    "not all below": lambda x: (30 <= arange(x.shape[1])).any().item(),
}


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("question", THROUGH.values(), ids=THROUGH)
def test_a_size_that_positions_or_ones_tell(question, opset):
    def model(x):
        return x * 3 if question(x) else x

    program = exported(model, torch.randn(2, 9), opset=opset, effort="low")
    assert program.report.promised == {"s": "s<=30"}
    assert_close(program.run(x := torch.randn(3, 30)), x)
    program = exported(model, torch.randn(2, 80), opset=opset, effort="low")
    assert program.report.promised["s"].startswith("s>=31")
    assert_close(program.run(x := torch.randn(3, 31)), x * 3)


class Dynamic(nn.Module):
    """Rotations that are others for sequences longer than those of the training."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", 1 / 10 ** (arange(4) / 4), persistent=False)

    def forward(self, x):
        places = arange(x.shape[1])
        length = torch.max(places) + 1
        turns = self.turns * (length / 40) if length > 40 else self.turns
        return x * torch.cos(places[:, None] * turns)


def test_numbers_without_a_sign_that_fall_are_no_row_that_rises():
    steps = torch.arange(100, 0, -1).to(torch.uint8)

    def model(x):
        return x * 3 if steps[: x.shape[1]].max() > 110 else x

    program = exported(model, torch.randn(2, 9))
    assert not program.report.promised
    assert_close(program.run(x := torch.randn(3, 70)), x)


def test_positions_beyond_those_of_the_training():
    model = Dynamic()
    program = exported(model, torch.randn(2, 9, 4), effort="low")
    assert program.report.promised == {"s": "s<=40"}
    assert_close(program.run(x := torch.randn(3, 40, 4)), model(x))
    both = exported(model, torch.randn(2, 9, 4))
    for length in (40, 41, 100):
        assert_close(both.run(x := torch.randn(3, length, 4)), model(x))


def test_a_number_of_positions_goes_on_to_be_a_size():
    def model(x):
        count = arange(x.shape[1]).max().item() + 1
        return x * count + torch.zeros(count)

    program = exported(model, torch.randn(2, 9))
    assert not program.report.escapes
    for n in (1, 8, 70):
        assert_close(program.run(x := torch.randn(3, n)), x * n)


@pytest.mark.parametrize("limit", [17, 33])
def test_what_follows_from_sizes_by_other_ways_is_tried_far_off(limit):
    def model(x):
        return x.sum() if (arange(x.shape[1]) ** 2).max() > limit**2 else x

    assert "inputs: wrong" in refused(model, torch.randn(2, 9))


def test_what_follows_from_contents_is_tried_nowhere_else():
    def model(x):
        return x * 3 if (x + arange(x.shape[1])).max() > 1000 else x

    program = exported(model, torch.randn(2, 9))
    assert not program.report.escapes[0].asked
