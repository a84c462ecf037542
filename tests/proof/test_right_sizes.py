"""With no effort left, a file that is right as it was recorded is promised for such sizes."""

import dataclasses

import pytest
import torch
from search_models import lost
from tests.shared import recipes_tried

import hx
from hx.budget import BUDGET
from hx.errors import UsageError, VerificationError
from hx.ir import spending


def of_digits(size):
    """A number that follows from a size by no formula, nor by anything that hx sees."""
    return lost(size) * 2654435761 % 97


def scaled(x):
    return x * of_digits(x.shape[0])


def scaled_from_seven_on(x):
    return x * (2 if lost(x.shape[0]) < 7 else of_digits(x.shape[0]))


def scaled_by_values(x):
    return x * of_digits(int(x.abs().sum()))


@pytest.fixture
def spent(monkeypatch):
    few = dataclasses.replace(BUDGET.effort, low=12)
    monkeypatch.setattr(spending, "BUDGET", dataclasses.replace(BUDGET, effort=few))


def export(model, effort="low"):
    return hx.export(model, torch.randn(4, 3), dynamic={"x": {0: "n"}}, effort=effort)


def test_one_size_is_promised_where_no_other_is_right(spent):
    program = export(scaled)
    assert program.report.promised == {"n": "n=4"}
    x = torch.randn(4, 3)
    torch.testing.assert_close(program.run(x), scaled(x))
    with pytest.raises(UsageError, match="the file is right for n=4"):
        program.run(torch.randn(5, 3))
    assert any("no effort is left" in str(each) for each in program.report.findings)


def test_the_sizes_around_it_are_promised_where_they_are_right(spent):
    with recipes_tried.tried() as found:
        program = export(scaled_from_seven_on)
    assert program.report.promised["n"] in ("n<=6", "n>=1<=6", "n>=2<=6"), found
    for n in range(2, 7):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program.run(x), scaled_from_seven_on(x))


def test_it_is_refused_if_it_is_wrong_at_the_given_sizes(spent):
    with pytest.raises(VerificationError, match="a higher effort tries more"):
        export(scaled_by_values)


def test_it_is_refused_while_there_is_effort():
    with pytest.raises(VerificationError):
        export(scaled, effort="normal")


def test_a_run_at_larger_sizes_counts_by_its_work():
    counted = spending.Spending(spending.Effort("low"))
    counted.run(0.1)
    counted.run(150.0)
    assert not counted.is_over
    counted.run(50.0)
    assert counted.is_over and "3 other runs of the model (as long as 201 of the first)" in str(
        counted
    )
