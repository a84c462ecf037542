"""any() and all() over tensors: one question for all of them, with the answer that Python gives."""

from __future__ import annotations

import pytest
import torch

import hx

SIZES = [{"n": 2}, {"n": 7}, {"n": 30}]


def forms():
    def any_row(x):
        return x / 2 if any(row.max() > 1.5 for row in x) else x + 1

    def all_rows(x):
        return x / 2 if all(row.sum() > -1 for row in x) else x + 1

    def any_truth(x):
        return x / 2 if any(bool(v > 1.5) for v in x[:, 0]) else x + 1

    def any_item(x):
        return x / 2 if any(v.item() > 1.5 for v in x[:, 0]) else x + 1

    def all_floats(x):
        return x / 2 if all(0.1 > float(v) for v in x[:, 0]) else x + 1

    def of_a_list(x):
        found = [row.isnan().any() for row in x]
        return x.nan_to_num() if any(found) else x + 1

    def not_all(x):
        return x + 1 if not all(row.abs().sum() > 0.5 for row in x) else x

    return [any_row, all_rows, any_truth, any_item, all_floats, of_a_list, not_all]


@pytest.mark.parametrize("function", forms(), ids=lambda f: f.__name__)
def test_both_answers_at_every_size(function):
    program = hx.export(function, torch.randn(6, 4), dynamic={"x": {0: "n"}})
    assert program.report.promised == {}
    for n in (2, 7, 30):
        for x in (torch.zeros(n, 4), torch.ones(n, 4) * 3, -torch.ones(n, 4), torch.rand(n, 4)):
            torch.testing.assert_close(program.run(x), function(x))
            x[n // 2] = 2
            torch.testing.assert_close(program.run(x), function(x))


def test_numbers_are_compared_as_python_does():
    """A float32 element of 0.1 becomes a Python float that is larger than the literal 0.1."""

    def f(x):
        return x * 2 if any(v.item() > 0.1 for v in x) else x

    program = hx.export(f, torch.rand(6), dynamic={"x": {0: "n"}})
    assert torch.equal(program.run(torch.full((4,), 0.1)), torch.full((4,), 0.2))


def test_other_items_are_asked_one_by_one():
    """Numbers, nothing, and an item that raises behind one that decides."""

    def f(x):
        def answers():
            yield x.sum() > 1e6
            yield x.sum() < 1e6
            raise RuntimeError

        more = any(size == 4 for size in x.shape), all([]), any(answers()), all([1, None, x])
        return x * (1 + sum(more))

    assert torch.equal(hx.export(f, torch.ones(2, 4)).run(torch.ones(2, 4)), f(torch.ones(2, 4)))


def test_a_name_of_the_model_is_its_own():
    def f(x):
        def any(items):
            return len([*items]) > 1

        return x * 2 if any(row for row in x[:1]) else x

    assert torch.equal(hx.export(f, torch.ones(2, 4)).run(torch.ones(2, 4)), torch.ones(2, 4))


def test_sizes_are_asked_one_by_one():
    def f(x):
        return x + 1 if all(size % 2 for size in x.shape) else x - 1

    program = hx.export(f, torch.ones(3, 5), dynamic={"x": {0: "b", 1: "n"}})
    for sizes in ((3, 7), (4, 7), (1, 2), (8, 8)):
        assert torch.equal(program.run(torch.ones(sizes)), f(torch.ones(sizes)))
