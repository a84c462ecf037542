"""Each way of a model that is in the file is proved as the first one is, or it is told that none is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.shared.lost_sizes import lost
from torch.testing import assert_close

import hx
from hx.findings import OPEN
from hx.ir.sizes.dims import Dim
from hx.recording.calls.real_calls import run_unrecorded
from hx.recording.origins import is_own_error

BATCH = {"x": {0: "b"}}


def of_small_ones(x):
    if x.abs().max() < 0.1:
        return x * lost(x.shape[0])
    return x + 1


def of_large_ones(x):
    if x.max() > 1:
        return x * lost(x.shape[0])
    return x + 1


def of_zeros(x):
    if not x.any():
        return x + lost(x.shape[0])
    return x + 1


@pytest.mark.parametrize("model", [of_small_ones, of_large_ones, of_zeros])
def test_where_data_lead_another_way_other_sizes_do_too(model):
    with pytest.raises(hx.VerificationError, match="the graph with all branches is wrong on .*b="):
        hx.export(model, torch.rand(3, 4), dynamic=BATCH)


def test_a_size_that_is_asked_on_another_way_is_asked_of_data_that_lead_there():
    def model(x):
        if x.max() > 1:
            return x * 2 if x.shape[0] >= 5 else x * 5
        return x + 1

    program = hx.export(model, torch.rand(3, 4), dynamic=BATCH)
    for n in (1, 3, 4, 5, 6, 12):
        for x in (torch.rand(n, 4), torch.rand(n, 4) * 3):
            assert_close(program.run(x), model(x))


def test_a_size_beyond_which_another_way_is_wrong_is_no_promise():
    def model(x):
        if x.max() > 1:
            return x * 2 if x.shape[0] > 9 else x * 5
        return x + 1

    program = hx.export(model, torch.rand(3, 4), dynamic=BATCH)
    for n in (1, 3, 9, 10, 20):
        x = torch.rand(n, 4) * 3
        try:
            found = program.run(x)
        except hx.UsageError:
            assert n > 9
            continue
        assert_close(found, model(x))


def test_what_a_mask_picks_is_there_on_large_inputs():
    def model(x):
        big = x > 1
        return x / x[big].max() if big.any() else x

    program = hx.export(model, torch.rand(3, 4), strict=True)
    for x in (torch.rand(3, 4), torch.rand(3, 4) * 9):
        assert_close(program.run(x), model(x))


def test_of_a_way_that_was_only_heard_it_is_told(line_of):
    def model(x):
        if x.max() > 1000:
            return x * 2 if x.shape[0] >= 5 else x * 5
        return x + 1

    program = hx.export(model, torch.rand(3, 4), dynamic=BATCH)
    (note,) = [note for note in program.report.notes if "is not proved" in note]
    assert f"yes at {__file__}:{line_of(model, '> 1000')}:" in note
    (asked,) = [escape for escape in program.report.escapes if escape.kind == "branch"]
    assert "tried at" not in str(asked) and "no inputs are known that lead there" in str(asked)
    for x in (torch.rand(5, 4), torch.rand(3, 4) * 3000):
        assert_close(program.run(x), model(x))


def test_where_data_are_known_nothing_of_that_is_told():
    def model(x):
        return x * 2 if x.mean() > 0 else x - 1

    report = hx.export(model, torch.rand(3, 4), dynamic=BATCH).report
    assert not [note for note in report.notes if "is not proved" in note]


def as_often_as_found(x):
    y = x * 0
    if x.max() > 1000:
        for i in (x[:, 0] > 1000).nonzero():
            y = y + i
    return y


def with_a_list(x):
    return x * sum(float(str(n)) for n in x[0].tolist()) if x.max() > 1000 else x * 2


def by_digits(x):
    return x * len(str(int(x.max()))) if x.max() > 1 else x


def test_a_number_of_data_that_lead_there_is_proved_on_others():
    with pytest.raises(hx.VerificationError, match="the graph with all branches is wrong on"):
        hx.export(by_digits, torch.rand(3, 4))


@pytest.mark.parametrize("model", [as_often_as_found, with_a_list])
def test_numbers_of_data_that_do_not_lead_there_are_in_no_file(model):
    program = hx.export(model, torch.rand(3, 4))
    (left,) = program.report.escapes
    assert not left.carried and "always takes this branch" in str(left)


def test_what_pytorch_raises_behind_an_answer_that_is_not_true_is_no_check():
    def model(x):
        big = x > 1000
        return x / x[big].max() if big.any() else x * 2

    (left,) = hx.export(model, torch.rand(3, 4)).report.escapes
    assert "the model raises" not in str(left)
    assert "the file always takes this branch: with the other answer it fails" in str(left)


def failing_in_hx(x):
    """Look something up in a table, as code of hx."""
    source = "def look_up(x): return {}['what hx knows']"
    file = Path(hx.__file__).parent / "look_up.py"
    space = {}
    exec(compile(source, str(file), "exec"), space)
    return space["look_up"](x)


def test_a_failure_of_hx_behind_an_answer_is_no_check():
    def model(x):
        return failing_in_hx(x) if x.max() > 1000 else x * 2

    (left,) = hx.export(model, torch.rand(3, 4)).report.escapes
    assert left.beyond == (
        "the file always takes this branch: hx failed to record the other one "
        "(KeyError: 'what hx knows')"
    )
    assert left.level(proved=True) == OPEN


@pytest.mark.parametrize(
    ("fail", "of_hx"),
    [
        (lambda: failing_in_hx(None), True),
        (lambda: {}["x"], False),
        (lambda: torch.zeros(2, 3).reshape(5), False),
        (lambda: torch.nn.functional.linear(torch.zeros(2), torch.zeros(3, 4)), False),
        (lambda: run_unrecorded(lambda: torch.zeros(2).reshape(5)), False),
        (lambda: Dim.leaf("n", 0, 3) // 0, False),
    ],
)
def test_the_innermost_frame_tells_whose_error_it_is(fail, of_hx):
    with pytest.raises(Exception) as caught:
        fail()
    assert is_own_error(caught.value) is of_hx


def test_an_error_of_a_call_that_hx_makes_is_not_its_own():
    def model(x):
        return x.reshape(5)

    with pytest.raises(RuntimeError, match="invalid for input") as caught:
        hx.export(model, torch.rand(3, 4))
    assert not is_own_error(caught.value)


def test_a_check_behind_another_branch_is_told_too(line_of):
    def model(x):
        if x.max() > 1:
            if x.min() < 0:
                raise ValueError("large, and below zero")
            x = x / 3
        return x * 2

    program = hx.export(model, torch.rand(3, 4))
    (left,) = [escape for escape in program.report.escapes if not escape.carried]
    assert left.where.line == line_of(model, "x.min()")
    assert (
        left.beyond == "with the other answer, the model raises ValueError: large, and below zero"
    )
    for x in (torch.rand(3, 4), torch.rand(3, 4) * 9):
        assert_close(program.run(x), model(x))


def test_a_way_with_a_round_for_each_of_a_thousand_elements_is_given_up():
    """With large inputs each of them is found: what then is recorded would be a graph of its own."""

    def model(x):
        total = x[0, :1] * 0
        for place in (x > 1).nonzero():
            total = total + place[:1].float() * x[0, :1]
        return total * 2 if x.max() > 5 else total

    with pytest.raises(hx.VerificationError, match="0 times, once for each that was found"):
        hx.export(model, torch.rand(32, 32), None)
