"""Sizes well beyond what a model asks of them: there a file may be wrong that is right just beyond the
border."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import hx
from hx.errors import UsageError

TABLE = [1.0, 2.0, 3.0, 4.0]


def seventh(x):
    return x[:, 6] if x.shape[1] > 6 else x[:, -1]


def pooled(x):
    if x.shape[1] < 32:
        x = F.pad(x, (0, 32 - x.shape[1]))
    return F.avg_pool1d(x[:, None], 32)[:, 0]


def resized(x):
    if x.shape[1] < 32:
        x = F.interpolate(x[:, None], size=32)[:, 0]
    return x.unfold(1, 32, 32).sum(1)


def largest(x):
    n, k = x.shape[1], 1
    if n > 32:
        k = n // 32
    return x.topk(k, 1)[0]


def windows(x):
    n = x.shape[1]
    window = min(n, 64)
    return x.unfold(1, window, window // 2 if n > 64 else window).sum(-1)


def caught(x):
    try:
        return x[:, 9]
    except IndexError:
        return x[:, -1]


@pytest.mark.parametrize("model", [seventh, pooled, resized, largest, windows, caught])
def test_just_beyond_the_border_both_ways_may_come_to_the_same(model):
    """33 elements have one window of 32, as 31 that are filled up have: 67 have two."""
    given = torch.randn(2, 3 if model is seventh else 4)
    program = hx.export(model, given, dynamic={"x": {1: "n"}})
    within = 0
    for n in (2, 5, 9, 30, 40, 64, 100, 128, 200):
        x = torch.randn(2, n)
        try:
            assert_close(program.run(x), model(x), msg=f"{n}")
            within += 1
        except UsageError:
            assert program.report.promised
    assert within > 1


def of_each_hundred(n):
    return float(("123456789" * 8)[n // 100])


def up_to(n):
    return TABLE[: n // 100 + 1][-1]


@pytest.mark.parametrize("number", [of_each_hundred, up_to])
def test_a_table_that_a_function_looks_into_which_is_given_nothing_but_a_size(number):
    def model(x):
        return x * number(x.shape[1])

    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})
    assert program.report.promised == {"n": "n<=99"}
    assert program.report.escapes[0].kind == "index"
