"""Sizes of sizes of sizes: each is worked out once, and not twice for each that is made of it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def sizes_of_sizes(x):
    h = x.shape[1]
    for _ in range(24):  # 2 ** 24 of them, as a tree
        h = max(h - h // 2, h % 3 + 1)
        x = x + torch.arange(h).sum()
    return x


def and_a_branch(x):
    x = sizes_of_sizes(x)
    return x * 2 if x.max() > 1e6 else x


def cut_again_and_again(x):
    for _ in range(8):
        h = x.shape[1]
        x = x[:, : max((h + 1) // 2 * 2 - h % 3, 4) // 2]
    return x * 2 if x.shape[1] > 2 else x


@pytest.mark.parametrize("model", [sizes_of_sizes, and_a_branch, cut_again_and_again])
def test_time_does_not_double_with_each_size(model):
    program = hx.export(model, torch.rand(1, 40), dynamic={"x": {1: "h"}})
    for h in (40, 41, 63):
        for scale in (1, 1e7):
            x = torch.rand(1, h) * scale
            assert_close(program.run(x), model(x))


def test_what_nobody_would_read_has_no_name():
    def model(x):
        h = x.shape[1]
        for _ in range(12):
            h = max(h - h // 2, h % 3 + 1)
        return x.new_zeros(h), x.new_zeros(x.shape[1] // 2)

    program = hx.export(model, torch.rand(1, 40), dynamic={"x": {1: "h"}})
    assert [output["shape"] for output in program.report.outputs] == [[None], ["(h//2)"]]


def test_what_is_told_of_sizes_does_not_double_with_each_that_they_are_made_of():
    def halved_until_one_is_left(x):
        while x.shape[1] > 1:
            h = x.shape[1] // 2
            x = torch.cat([x[:, :h] + x[:, h : 2 * h], x[:, 2 * h :]], 1)
        return x

    with pytest.raises(hx.VerificationError, match="depends on a size, t > 1"):
        hx.export(halved_until_one_is_left, torch.rand(2, 8), dynamic={"x": {1: "t"}})
