"""Loops as long as a number in an input says: lengths of sequences, numbers of steps."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def masked(x, lengths):
    h = x[:, 0] * 0
    for t in range(int(lengths.max())):
        h = torch.where((t < lengths)[:, None], torch.tanh(h + x[:, t]), h)
    return h


def every_step(x, lengths):
    h, steps = x[:, 0] * 0, []
    for t in range(lengths.max().item()):
        h = torch.where((t < lengths)[:, None], torch.tanh(h + x[:, t]), h)
        steps.append(h)
    return torch.stack(steps, 1)


def for_all(x, lengths):
    for _ in range(int(lengths.sum())):
        x = torch.tanh(x * 1.1 + 1)
    return x


@pytest.mark.parametrize("axes", [None, {"x": {0: "b", 1: "n"}, "lengths": {0: "b"}}], ids=str)
@pytest.mark.parametrize("longest", [5, 12])
@pytest.mark.parametrize("model", [masked, every_step, for_all])
def test_as_often_as_a_number_says(model, longest, axes):
    torch.manual_seed(0)
    given = torch.randn(3, longest + 3, 4), torch.tensor([longest, 3, 4])
    program = hx.export(model, given, dynamic=axes)
    assert not [e for e in program.report.escapes if e.kind == "range" and not e.carried]
    for lengths in ([1, 1, 1], [2, 1, 3], [longest, 3, 4], [1, longest + 3, 4]):
        other = torch.randn(3, longest + 3, 4), torch.tensor(lengths)
        assert_close(program.run(*other), model(*other))
    if axes:
        other = torch.randn(2, 30, 4), torch.tensor([27, 3])
        assert_close(program.run(*other), model(*other))


def unlike_rounds(x, lengths):
    """That are no loop in a graph: each has another number of its own."""
    h, following = x[:, 0] * 0, iter([3, 1, 4, 1, 5, 9, 2, 6])
    for t in range(int(lengths.max())):
        step = torch.tanh(h + x[:, t]) * next(following) if t % 3 else h.roll(t, 1) + x[:, t]
        h = torch.where((t < lengths)[:, None], step, h)
    return h


def test_what_is_masked_is_asked_with_more_rounds_and_told_plainly():
    given = torch.randn(3, 8, 4), torch.tensor([5, 3, 4])
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(unlike_rounds, given)
    told = str(caught.value)
    assert "larger lengths inputs: wrong" in told
    assert "5 times in the file, whatever is in lengths: values decide how often that is" in told


def test_recorded_with_the_most_rounds_that_there_may_be_it_is_right_and_told():
    given = torch.randn(3, 8, 4), torch.tensor([8, 3, 4])
    program = hx.export(unlike_rounds, given)
    (escape,) = [e for e in program.report.escapes if e.kind == "range"]
    assert escape.detail == "8 times in the file, whatever is in lengths"
    for lengths in ([1, 1, 1], [5, 8, 2]):
        other = torch.randn(3, 8, 4), torch.tensor(lengths)
        assert_close(program.run(*other), unlike_rounds(*other))


def cut_after_40(x, lengths):
    h = x[:, 0] * 0
    for t in range(int(lengths.max())):
        if t == 40:
            break
        h = torch.tanh(h + x[:, t])
    return h


def test_what_the_first_rounds_do_not_show_is_seen_where_there_is_room_for_more():
    given = torch.randn(3, 15, 4), torch.tensor([12, 3, 4])
    with pytest.raises(hx.VerificationError, match="larger lengths"):
        hx.export(cut_after_40, given, dynamic={"x": {0: "b", 1: "n"}, "lengths": {0: "b"}})


def another_at_each_16th(x, lengths):
    h = x[:, 0] * 0
    for t in range(int(lengths.max())):
        h = torch.tanh(h + x[:, t]) if t % 16 != 15 else h * 2
    return h


def test_what_later_rounds_ask_of_their_number_is_asked_in_the_graph():
    given = torch.randn(3, 15, 4), torch.tensor([12, 3, 4])
    axes = {"x": {0: "b", 1: "n"}, "lengths": {0: "b"}}
    program = hx.export(another_at_each_16th, given, dynamic=axes)
    for n in (4, 15, 16, 17, 33, 100):
        other = torch.randn(3, n, 4), torch.tensor([n, 3, 4])
        assert_close(program.run(*other), another_at_each_16th(*other))


def kept_up_to_40(x):
    h, rows = torch.zeros(4), x[x[:, 0] > 0]
    for i in range(len(rows)):
        h = torch.tanh(h + rows[i]) if i < 40 else h
    return h


def test_of_what_is_found_more_is_looked_for_than_in_the_first_rounds():
    with pytest.raises(hx.VerificationError):
        hx.export(kept_up_to_40, torch.randn(20, 4), dynamic={"x": {0: "n"}})


def test_a_mask_is_no_number_of_rounds():
    def model(x, mask):
        h = x[:, 0] * 0
        for t in range(int(mask.sum(1).max())):
            h = torch.tanh(h + x[:, t] * mask[:, t, None])
        return h

    mask = (torch.arange(12) < torch.tensor([[12], [7]])).long()
    program = hx.export(model, (torch.randn(2, 12, 4), mask))
    for length in (2, 9, 12):
        other = torch.randn(2, 12, 4), (torch.arange(12) < torch.tensor([[length], [2]])).long()
        assert_close(program.run(*other), model(*other))


class Steps(torch.nn.Module):
    """A table of what is added in each round, which the number of the round picks from."""

    def __init__(self, pick):
        super().__init__()
        self.table, self.pick = torch.nn.Embedding(64, 4), pick

    def forward(self, x):
        h = x[:, 0] * 0
        for i in range(x.shape[1]):
            h = torch.tanh(h + x[:, i] + self.pick(self.table, i))
        return h


@pytest.mark.parametrize(
    "pick",
    [
        lambda table, i: table(torch.tensor([i])),
        lambda table, i: table(torch.tensor(i)),
        lambda table, i: table(torch.arange(i, i + 1)),
        lambda table, i: table.weight.index_select(0, torch.tensor([i])),
        lambda table, i: torch.sin(torch.tensor([i]) * table.weight[0]),
    ],
    ids=["one_in_a_list", "one", "a_range", "selected", "a_wave"],
)
def test_the_number_of_a_round_as_a_tensor(pick):
    torch.manual_seed(0)
    model = Steps(pick).eval()
    program = hx.export(model, torch.randn(2, 5, 4), dynamic={"x": {0: "b", 1: "t"}})
    assert not program.report.promised
    for t in (1, 2, 17, 40):
        x = torch.randn(3, t, 4)
        assert_close(program.run(x), model(x))
