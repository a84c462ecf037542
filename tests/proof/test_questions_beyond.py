"""Questions on the far side of another: of values behind sizes, of sizes and loops behind values."""

from __future__ import annotations

import pytest
import torch
from across import exported
from torch.testing import assert_close

import hx

BY_ROWS = {"x": {0: "b"}}


def values_behind_sizes(x):
    if x.shape[0] > 4:
        if x.max() > 2:
            x = x * 2
    return x


def a_number_behind_sizes(x):
    if x.shape[0] > 16:
        scale = x.abs().max().item()
        if scale > 1e30:
            x = x / 2
    return x


def sizes_behind_values(x):
    if x.max() > 100:
        if x.shape[0] > 4:
            x = x * 2
    return x


def a_loop_behind_values(x):
    if x.max() > 100:
        for i in range(x.shape[0]):
            x = x + i
    return x


def sizes_behind_what_never_comes(x):
    if x.max() > 1e30:
        if x.shape[0] > 4:
            x = x * 2
    return x


def a_loop_and_a_long_input(x):
    h = x[:, 0] * 0
    for t in range(x.shape[1]):
        h = torch.tanh(h + x[:, t])
    return h * 2 if x.shape[1] > 20 else h


def told(program):
    return [str(each) for each in program.report.escapes if not each.carried]


def test_values_that_are_asked_at_other_sizes_alone_are_followed_there():
    program = exported(values_behind_sizes, torch.rand(3, 4), BY_ROWS)
    for rows in (1, 3, 5, 8):
        for scale in (1, 5, 200):
            x = torch.rand(rows, 4) * scale
            assert_close(program.run(x), values_behind_sizes(x))


def test_of_those_that_no_data_answer_otherwise_it_is_told():
    program = exported(a_number_behind_sizes, torch.rand(3, 4), BY_ROWS)
    assert any("item" in each and each.endswith("at b=17") for each in told(program))


def test_sizes_that_data_lead_to_are_right_or_told():
    program = exported(sizes_behind_values, torch.rand(3, 4), BY_ROWS)
    for rows in (3, 8):
        for scale in (1, 500):
            x = torch.rand(rows, 4) * scale
            right = program.run(x).equal(sizes_behind_values(x))
            assert right or any("whatever is in it" in each for each in told(program))


def test_a_loop_that_large_values_lead_to_is_refused_for_these(line_of):
    with pytest.raises(hx.VerificationError, match="large inputs: wrong") as refused:
        exported(a_loop_behind_values, torch.rand(3, 4), BY_ROWS)
    assert f"{__file__}:{line_of(a_loop_behind_values, 'if x.max')}" in str(refused.value)


def test_sizes_that_no_data_lead_to_are_not_said_to_be_tried():
    program = exported(sizes_behind_what_never_comes, torch.rand(3, 4), BY_ROWS)
    (escape,) = told(program)
    assert "b > 4" in escape and "no inputs are known that lead there" in escape
    assert "; tried at" not in escape


def test_a_promise_is_measured_by_the_sizes_that_were_given():
    """Though more rounds are recorded where they become a loop."""
    program = exported(a_loop_and_a_long_input, torch.randn(2, 8, 4), {"x": {1: "n"}})
    assert program.report.promised == {"n": "n<=20"}
    for length in (1, 8, 20):
        x = torch.randn(2, length, 4)
        assert_close(program.run(x), a_loop_and_a_long_input(x))
