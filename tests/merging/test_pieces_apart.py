"""Slices in place of a Split, for those pieces of an axis that the model reads."""

from __future__ import annotations

import itertools

import pytest
import torch

import hx

BY_LENGTH = {"x": {0: "n"}}


def first_of_a_list(x):
    return torch.stack(list(x)[:3])


def first_by_itertools(x):
    return torch.stack([*itertools.islice(x, 3)])


def first_and_last(x):
    rows = x.unbind(0)
    return rows[0] - rows[-1]


def one_of_the_middle(x):
    rows = torch.unbind(x)
    return rows[len(rows) // 2]


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (first_of_a_list, 3),
        (first_by_itertools, 3),
        (first_and_last, 1),
        (one_of_the_middle, 1),
    ],
)
def test_a_list_of_rows_may_be_longer_than_recorded(model, least):
    program = hx.export(model, torch.randn(5, 4), None, dynamic=BY_LENGTH)
    assert program.report.promised.get("n", "n>=1") == f"n>={least}"
    for n in (least, 5, 6, 30, 200):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), model(x))


def test_pieces_that_are_all_read_stay_one_split():
    def thirds(x):
        a, b, c = x.unbind(1)
        return a * b + c

    program = hx.export(thirds, torch.randn(5, 3), None, dynamic=BY_LENGTH)
    assert [node.op_type for node in program.model.graph].count("Split") == 1
