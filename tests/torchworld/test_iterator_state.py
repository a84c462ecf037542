"""Iterators that a model keeps from call to call are where they were after each run."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import hx

NUMBERS = (2.0, 3.0, 5.0, 7.0)
GLOBAL = iter([2.0])
ITERATORS = {
    "list": lambda: iter([*NUMBERS]),
    "tuple": lambda: iter(NUMBERS),
    "range": lambda: iter(range(2, 9)),
    "reversed": lambda: reversed(NUMBERS),
    "dict": lambda: iter(dict.fromkeys(NUMBERS)),
    "map": lambda: map(float, iter(["2", "3", "5"])),
    "filter": lambda: filter(None, [0.0, 2.0, 0.0, 3.0]),
    "count": lambda: itertools.count(2.0, 0.5),
    "cycle": lambda: itertools.cycle([2.0, 3.0]),
    "chain": lambda: itertools.chain([2.0], [3.0], [5.0]),
    "slice": lambda: itertools.islice(itertools.count(2), 5),
}


class Holding(nn.Module):
    def __init__(self, iterator):
        super().__init__()
        self.numbers = iterator

    def forward(self, x):
        return x * next(self.numbers)


def around(iterator):
    return lambda x: x * next(iterator)


def in_a_list(iterator):
    held = [iterator]
    return lambda x: x * next(held[0])


@pytest.mark.parametrize("holding", [Holding, around, in_a_list])
@pytest.mark.parametrize("kind", ITERATORS)
def test_the_file_is_the_first_call_and_the_next_one_is_still_to_come(kind, holding):
    model, expected = holding(ITERATORS[kind]()), holding(ITERATORS[kind]())
    x = torch.randn(5, 4)
    program = hx.export(model, x, None, dynamic={"x": {0: "n"}})
    for n in (5, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), x * next(ITERATORS[kind]()))
    for _ in range(2):
        torch.testing.assert_close(model(x), expected(x))


def test_iterators_that_go_together_stay_together():
    class Together(nn.Module):
        def __init__(self):
            super().__init__()
            self.pairs = zip(itertools.cycle(NUMBERS), itertools.count(1))
            self.numbered = enumerate([*NUMBERS])

        def forward(self, x):
            (a, b), (i, c) = next(self.pairs), next(self.numbered)
            return x * (a * 1000 + b * 100 + i * 10 + c)

    model, other = Together(), Together()
    x = torch.ones(5, 4)
    model(x), other(x)
    program = hx.export(model, x, None, dynamic={"x": {0: "n"}})
    expected = other(x)
    torch.testing.assert_close(program.run(x), expected)
    torch.testing.assert_close(model(x), expected)


def by_default(x, numbers=iter([2.0])):  # noqa: B008  (the default is the state that is tested)
    return x * next(numbers, 7.0)


def by_global_name(x):
    return x * next(GLOBAL, 7.0)


def by_closure():
    numbers = iter([2.0])
    return lambda x: x * next(numbers, 7.0)


@pytest.mark.parametrize("model", [by_default, by_global_name, by_closure()])
def test_an_iterator_at_its_end_begins_again(model):
    """A list's iterator that has come to its end cannot be set back."""
    x = torch.randn(5, 4)
    program = hx.export(model, x, None, dynamic={"x": {0: "n"}})
    torch.testing.assert_close(program.run(torch.ones(9, 4)), torch.full((9, 4), 2.0))
    torch.testing.assert_close(model(x), x * 2.0)
    torch.testing.assert_close(model(x), x * 7.0)


def test_a_generator_that_ends_is_an_error_of_hx():
    numbers = (n for n in (2.0, 3.0))
    with pytest.raises(hx.HxError, match=r"StopIteration when it runs again") as caught:
        hx.export(lambda x: x * next(numbers), torch.randn(5, 4), None, dynamic={"x": {0: "n"}})
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
