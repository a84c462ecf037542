"""Questions about values that a fixed number of rounds asks: an If for each of them."""

from __future__ import annotations

import pytest
import torch
from tests.shared.lost_sizes import lost
from torch.testing import assert_close

import hx


def bisected(x):
    """Nearest number that half of the elements exceed."""
    low, high = x.min(), x.max()
    for _ in range(12):
        middle = (low + high) / 2
        if (x > middle).float().mean() > 0.5:
            low = middle
        else:
            high = middle
    return x - high


def centres(x):
    """Means of what is nearest to each of two points, which may be nothing."""
    c = torch.tensor([[0.0, 1.0], [1.0, -1.0]])
    for _ in range(3):
        nearest = torch.cdist(x, c).argmin(1)
        moved = []
        for k in range(2):
            members = nearest == k
            moved.append(x[members].mean(0) if members.any() else c[k])
        c = torch.stack(moved)
    return c


@pytest.mark.parametrize("model", [bisected, centres])
def test_each_question_is_an_if(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(8, 2), dynamic={"x": {0: "n"}})
    assert program.report.promised == {}
    for n in (1, 3, 8, 30):
        for x in (torch.randn(n, 2), torch.randn(n, 2) + 4, torch.randn(n, 2) - 4):
            assert_close(program.run(x), model(x))


def test_a_merge_that_is_wrong_for_one_row_is_promised_for_two():
    """Python counts the rows, and the count less one divides: a formula of one row is not seen."""

    def spread(x):
        mean, squares, count = torch.zeros(4), torch.zeros(4), 0
        for row in x:
            count = lost(count + 1)
            off = row - mean
            mean = mean + off / count
            squares = squares + off * (row - mean)
        return mean, (squares / max(count - 1, 1)).sqrt()

    program = hx.export(spread, torch.randn(8, 4), dynamic={"x": {0: "n"}})
    assert program.report.promised == {"n": "n>=2"}
    for n in (2, 5, 40):
        x = torch.randn(n, 4)
        assert_close(program.run(x), spread(x))
