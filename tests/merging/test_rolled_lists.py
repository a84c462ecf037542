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


def the_same_as_often_as_the_other_says(x, y):
    outs = []
    for row in x:
        h = torch.tanh(row)
        for _ in range(len(y)):
            outs.append(h)
    return torch.stack(outs), torch.vstack([x[0]] * x.shape[0])


def as_many_as_there_happen_to_be(x, y):
    outs, h = [x.sum(0)], x.mean(0)
    for row in x:
        for _ in x[y > 1]:
            outs.append(h)
        outs.append(torch.tanh(row))
    return torch.stack(outs)


def both_for_each_place(x, y):
    outs, h = [x.sum(0)], x.mean(0)
    for place in torch.where(y > 0)[0].tolist():
        outs.append(x[place])
        for row in x[(y > 0).nonzero()[:, 0]]:
            h = torch.tanh(h * 0.5 + row)
            outs.append(h)
    return torch.stack(outs)


def a_row_and_its_cells(x, y):
    outs = []
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            outs.append(x[i] * y[j])
            outs.append(x[i] + y[j])
        outs.append(x[i])
    return torch.stack(outs, 1)


@pytest.mark.parametrize(
    "model",
    [
        the_same_as_often_as_the_other_says, as_many_as_there_happen_to_be, both_for_each_place,
        a_row_and_its_cells,
    ],
)  # fmt: skip
def test_what_a_loop_and_one_within_it_give(model):
    dynamic = {"x": {0: "n"}, "y": {0: "n"}}
    program = hx.export(
        model, (torch.randn(7, 4), torch.tensor([0, 2, 1, 3, 2, 2, 0])), dynamic=dynamic
    )
    assert not program.report.promised
    for n in (2, 3, 9, 13):
        x, y = torch.randn(n, 4), torch.arange(n).flip(0) * 4 // n
        assert_close(program.run(x, y), model(x, y), msg=f"at {n}")


def test_as_many_rounds_of_each_list_as_it_has():
    """Both loops go as often when this is recorded: as many numbers as different ones."""

    def model(x, z):
        first, second = [x], []
        for n in z.unique():
            first.append(torch.tanh(x) * n)
        for n in z:
            second.append(x + n)
        doubled = [each * 2 for each in first]
        return torch.stack(doubled), torch.stack([each * 3 for each in second])

    program = hx.export(model, (torch.randn(4), torch.tensor([1, 0, 2])), dynamic={"z": {0: "m"}})
    for z in ([0], [3, 3], [5, 1, 5, 2, 2], list(range(20))):
        x, z = torch.randn(4), torch.tensor(z)
        assert_close(program.run(x, z), model(x, z))


def test_how_often_values_say_is_refused_where_they_decide_it_anew_in_each_round():
    def repeated(x):
        outs = []
        for row in x:
            h = torch.tanh(row)
            for _ in range(int((row > 0).sum())):
                outs.append(h)
        return torch.stack(outs)

    with pytest.raises(hx.VerificationError, match="test_rolled_lists"):
        hx.export(repeated, torch.ones(6, 7), dynamic={"x": {0: "n"}})


class BehindAPackedSequence(torch.nn.Module):
    """The shape of the first state looks like a stack of what rounds made, and is none."""

    def __init__(self):
        super().__init__()
        self.gru = torch.nn.GRU(3, 4, batch_first=True)

    def forward(self, x, lengths):
        pack = torch.nn.utils.rnn.pack_padded_sequence
        _, last = self.gru(pack(x, lengths, batch_first=True, enforce_sorted=False))
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = state * 0.5 + x[:, t]
        return last[0], state


def test_a_loop_behind_a_packed_sequence():
    torch.manual_seed(0)
    model = BehindAPackedSequence().eval()
    given = torch.randn(3, 7, 3), torch.tensor([7, 4, 2])
    axes = {"x": {0: "b", 1: "t"}, "lengths": {0: "b"}}
    program = hx.export(model, given, dynamic=axes)
    assert "are a loop in the graph" in str(program.report)
    for lengths in ([7, 4, 2], [3, 9], [12, 1, 5, 12]):
        other = torch.randn(len(lengths), max(lengths), 3), torch.tensor(lengths)
        with torch.no_grad():
            assert_close(program.run(*other), model(*other), rtol=1e-4, atol=1e-5)
