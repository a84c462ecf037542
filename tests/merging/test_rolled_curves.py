"""Numbers that a function of the round gives, and such as come round."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

import hx

TABLE = [0.5, 1.25, -2.0]
OF_ROUNDS = {
    "root": lambda i: (i + 1) ** 0.5,
    "root from 0": lambda i: i**0.5,
    "one by a root": lambda i: 1 / math.sqrt(2 * i + 1),
    "any power": lambda i: 3 * (i + 2) ** 0.37,
    "log": lambda i: math.log(i + 1),
    "sum with a log": lambda i: 1 - 0.25 * math.log2(i + 2),
    "hyperbola": lambda i: 1 / (i + 2),
    "ratio": lambda i: i / (i + 1),
    "another ratio": lambda i: (2 * i + 1) / (3 * i + 1),
    "square": lambda i: (i - 2) ** 2 * 0.125,
    "square of what is below 0": lambda i: (i - 7) * (i - 7) * 0.01,
    "cube": lambda i: float(i**3),
    "sine": lambda i: math.sin(i),
    "waves": lambda i: 2 * math.cos(0.3 * i + 0.2),
    "eighths": lambda i: math.cos(i * math.pi / 8),
    "comes near": lambda i: 1 - 0.9 ** (i + 1),
    "table": lambda i: TABLE[i % 3],
    "rounded": lambda i: round(i / 2),
    "table and more": lambda i: TABLE[i % 3] + i // 3,
    "quarters": lambda i: math.sin(i * math.pi / 2),
}


@pytest.mark.parametrize("number", OF_ROUNDS.values(), ids=OF_ROUNDS)
def test_numbers_that_follow_the_round(number):
    def model(x):
        h = torch.zeros(4)
        for i in range(len(x)):
            h = 0.5 * h + x[i] * number(i)
        return h

    program = hx.export(model, torch.randn(6, 4), dynamic={"x": {0: "n"}})
    assert "are a loop in the graph" in str(program.report)
    for n in (1, 2, 3, 9, 40, 200):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def of_all_rounds_before(x):
    h, many = x[0] * 0, 0
    for i in range(len(x)):
        many += i
        h = h * 0.5 + x[i] * many
    return h


def along_a_cosine(x):
    n = x.shape[0]
    return torch.stack([x[i] * math.cos((i + 1) / n * math.pi / 2) for i in range(n)])


@pytest.mark.parametrize("model", [of_all_rounds_before, along_a_cosine])
def test_numbers_of_other_kinds(model):
    program = hx.export(model, torch.randn(9, 4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 9, 23, 50):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def test_numbers_of_no_rule_are_refused():
    numbers = torch.rand(5000, generator=torch.Generator().manual_seed(0)).tolist()

    def model(x):
        following = iter(numbers)
        return torch.stack([x[i] * next(following) for i in range(len(x))])

    with pytest.raises(hx.VerificationError):
        hx.export(model, torch.randn(6, 4), dynamic={"x": {0: "n"}})


NUMBERS = torch.rand(5000, generator=torch.Generator().manual_seed(0)).tolist()


def of_a_long_table(x):
    return torch.stack([x[i] * NUMBERS[i] for i in range(len(x))])


def that_ends(x):
    return torch.stack([x[i] * math.sqrt(min(i + 1, 30)) for i in range(len(x))])


@pytest.mark.parametrize("model", [of_a_long_table, that_ends])
def test_numbers_that_the_recorded_rounds_do_not_tell(model):
    program = hx.export(model, torch.randn(6, 4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 29, 30, 31, 500):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)
