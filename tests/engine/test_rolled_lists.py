"""Lists that rounds fill: with several entries each, from several loops, with the same again."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def two_in_each_round(x, y):
    outs = []
    for row in x:
        outs.append(torch.tanh(row))
        outs.append(row * 2)
    return torch.stack(outs), torch.cat(outs), torch.stack(outs, 1)


def three_backwards(x, y):
    outs, h = [], x[0]
    for row in x:
        h = torch.tanh(h + row)
        outs += [h, row, h * row]
    return torch.stack(outs[::-1]), h


def two_for_each_place(x, y):
    outs = []
    for i in (y > 1).nonzero()[:, 0]:
        outs.append(torch.tanh(x[i]))
        outs.append(x[i] - y[i])
    return torch.stack(outs)


def of_two_loops(x, y):
    outs = []
    for row in x:
        outs.append(torch.tanh(row))
    for i in (y > 1).nonzero()[:, 0]:
        outs.append(x[i] * 3)
    return torch.stack(outs)


def of_two_loops_behind_the_first(x, y):
    h = x.mean(0)
    outs = [h]
    for row in x:
        h = torch.tanh(h + row)
        outs.append(h)
    for row in x.flip(0):
        h = torch.tanh(h - row)
        outs.append(h)
    return torch.stack(outs), torch.cat(outs)


def the_same_again(x, y):
    outs, h = [], x.mean(0)
    for _ in x:
        outs.append(h)
    return torch.stack(outs), torch.cat(outs)


def the_same_beside_another(x, y):
    outs, h = [], x.mean(0)
    for row in x:
        outs.append(h)
        outs.append(torch.tanh(row))
        outs.append(torch.zeros(4))
    return torch.stack(outs, 1)


def the_outer_one_in_each_inner_round(x, y):
    outs = []
    for row in x:
        h = torch.tanh(row)
        for _ in y:
            outs.append(h)
    return torch.stack(outs)


def the_outer_one_for_each_place(x, y):
    outs = []
    for row in x:
        h = torch.tanh(row)
        for i in (y > 1).nonzero()[:, 0]:
            outs.append(h)
            outs.append(h * x[i])
    return torch.stack(outs)


def from_both_loops(x, y):
    outs = []
    for row in x:
        outs.append(row)
        for n in y:
            outs.append(torch.tanh(row) + n)
    return torch.stack(outs)


def cells_twice(x, y):
    outs = []
    for row in x:
        for cell in row:
            outs.append(torch.tanh(cell))
            outs.append(cell * 2)
    return torch.stack(outs)


def as_many_as_there_are(x, y):
    outs = []
    for row in x:
        outs.append(torch.tanh(row))
        outs.append(row * 2)
    made = torch.stack(outs)
    return made * made.shape[0] + len(outs), made.mean(0)


def gone_over_again(x, y):
    outs = []
    for row in x:
        outs.append(torch.tanh(row))
        outs.append(row * 2)
    return torch.stack([each * 3 for each in outs])


def along_their_own_axis(x, y):
    outs = []
    for row in x:
        outs.append(torch.tanh(row)[None])
        outs.append(torch.stack([row, row * 2]))
    return torch.cat(outs), torch.cat(outs).sum(0)


@pytest.mark.parametrize(
    "model",
    [
        two_in_each_round, three_backwards, two_for_each_place, of_two_loops,
        of_two_loops_behind_the_first, the_same_again, the_same_beside_another,
        the_outer_one_in_each_inner_round, the_outer_one_for_each_place, from_both_loops,
        cells_twice, as_many_as_there_are, gone_over_again, along_their_own_axis,
    ],
)  # fmt: skip
def test_a_list_at_any_number_of_rounds(model):
    dynamic = {"x": {0: "n"}, "y": {0: "n"}}
    program = hx.export(
        model, (torch.randn(6, 4), torch.tensor([0, 2, 1, 3, 2, 2])), dynamic=dynamic
    )
    assert not program.report.promised
    for n in (1, 2, 3, 9, 17):
        x, y = torch.randn(n, 4), torch.arange(n).flip(0) * 3 // n
        if model in (two_for_each_place, the_outer_one_for_each_place) and not (y > 1).any():
            continue  # PyTorch joins no empty list
        assert_close(program.run(x, y), model(x, y), msg=f"at {n}")


def test_lengths_that_differ_from_round_to_round():
    """As many as the row says: the same in each row of what is given, and not in what comes."""

    def repeated(x):
        outs = []
        for row in x:
            h = torch.tanh(row)
            for _ in range(int((row > 0).sum())):
                outs.append(h)
        return torch.stack(outs)

    x = torch.ones(6, 7)
    try:
        program = hx.export(repeated, x, dynamic={"x": {0: "n"}})
    except hx.HxError as error:
        assert "test_rolled_lists.py" in str(error)
        return
    for n in (2, 9):
        x = torch.randn(n, 7)
        assert_close(program.run(x), repeated(x))
