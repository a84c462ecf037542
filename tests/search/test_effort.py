"""The number of runs that a search may spend before it tries nothing new."""

from __future__ import annotations

import pytest
import torch
from tests.shared import recipes_tried

import hx
from hx.budget import BUDGET
from hx.errors import UsageError, VerificationError
from hx.ir.spending import Effort, Spending


def collatz(x):
    n = int(x.abs().sum()) + 7
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        x = x * 0.5 + n
    return x


def test_spending_is_over_at_the_limit_of_its_effort():
    spending = Spending(Effort("low"), recordings=BUDGET.effort.low - 1)
    assert not spending.is_over
    spending.others += 1
    assert spending.is_over and "low effort" in str(spending)
    assert not Spending(recordings=10**9).is_over  # nobody named an effort


def test_an_unknown_effort_is_a_usage_error():
    with pytest.raises(UsageError, match="effort='most' is unknown"):
        hx.export(torch.relu, torch.ones(2), effort="most")


def refusal(effort):
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    with recipes_tried.tried() as found, pytest.raises(VerificationError) as refused:
        hx.export(collatz, x, input_names=["x"], dynamic={"x": {0: "n"}}, effort=effort)
    return refused.value, found


def test_a_loop_without_a_known_end_is_refused_sooner_with_less_effort():
    low, tried_low = refusal("low")
    assert any(name.endswith(": wrong") for name in tried_low)  # it is proved as recorded
    assert "a higher effort tries more" in low.hint
    assert low.report.spent.endswith(f"of {BUDGET.effort.low} (low effort)")


def test_the_report_tells_what_was_spent():
    program = hx.export(torch.relu, torch.ones(2, 3))
    assert program.report.spent.startswith("1 recording and ")
    assert program.report.to_dict()["spent"] == program.report.spent
    assert "effort" in str(program.report)
