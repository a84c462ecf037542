"""Sizes that the model itself refuses: nobody knows what a file gives there, and none says it does."""

from __future__ import annotations

import statistics

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import hx


class Parts(nn.Module):
    """Takes parts only that make up the whole; its rows are as long as PyTorch's `split` says."""

    def forward(self, x, lengths):
        if int(lengths.sum()) != len(x):
            raise ValueError("parts have to make up the whole")
        return torch.repeat_interleave(torch.arange(len(lengths)), lengths, output_size=len(x)) + x


@pytest.mark.parametrize("lengths", [[4, 4, 1], [5, 3], [3, 1, 2]], ids=str)
def test_parts_are_tried_that_make_up_another_whole(lengths):
    """Of numbers that are drawn next to none would be taken: they go on to make up the whole."""
    given = torch.randn(sum(lengths)), torch.tensor(lengths)
    program = hx.export(Parts(), given, dynamic={"x": {0: "n"}, "lengths": {0: "b"}})
    assert not program.report.promised
    more = f"n={sum(lengths) + 1}, b={len(lengths) + 2}"
    assert more in [case.name for case in program.report.proof.cases]
    other = torch.randn(11), torch.tensor([2, 1, 3, 5])
    assert_close(program.run(*other), Parts()(*other))


def test_an_order_goes_on_behind_its_last_place():
    class Ordered(nn.Module):
        def forward(self, x, order):
            if sorted(order.tolist()) != list(range(len(x))):
                raise ValueError("no permutation")
            return x[order] * 2

    given = torch.randn(5, 3), torch.tensor([3, 1, 4, 0, 2])
    program = hx.export(Ordered(), given, dynamic={"x": {0: "n"}, "order": {0: "n"}})
    assert "n=10" in [case.name for case in program.report.proof.cases]
    assert not program.report.promised


class Packed(nn.Module):
    """Takes the longest first, and as long as what was padded to it; goes over it step by step."""

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        y, _ = pad_packed_sequence(packed, batch_first=True)
        y = y * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        state = torch.zeros_like(y[:, 0])
        for t in range(x.shape[1]):
            state = state / 2 + y[:, t]
        return y, state


@pytest.mark.parametrize("lengths", [[7, 4, 2], [6, 5], [5]], ids=str)
def test_lengths_are_tried_as_the_model_insists_on_them(lengths):
    model, given = Packed(), (torch.randn(len(lengths), lengths[0], 3), torch.tensor(lengths))
    program = hx.export(model, given, dynamic={"x": {0: "b", 1: "t"}, "lengths": {0: "b"}})
    assert not program.report.promised
    assert "fresh" in [case.name for case in program.report.proof.cases]
    for lengths in ([19, 19, 11, 2], [1]):
        other = torch.randn(len(lengths), lengths[0], 3), torch.tensor(lengths)
        assert_close(program.run(*other), model(*other), rtol=1e-4, atol=1e-5)


class OnlyFive(nn.Module):
    def forward(self, x):
        if x.shape[1] != 5:
            raise ValueError("five columns are wanted")
        return x * torch.arange(5)


def test_a_size_of_which_no_other_was_taken_is_promised_as_it_is(tmp_path):
    x, path = torch.randn(2, 5), tmp_path / "m.onnx"
    program = hx.export(OnlyFive(), x, path, dynamic={"x": {0: "b", 1: "n"}})
    assert program.report.promised == {"n": "n=5"}
    (note,) = [note for note in program.report.notes if "as far as anybody knows" in note]
    assert "no other size of n could be tried" in note and "five columns are wanted" in note
    assert_close(program.run(torch.ones(7, 5)), OnlyFive()(torch.ones(7, 5)))
    with pytest.raises(hx.UsageError, match="n is 6, and the file is right for n=5 only"):
        program.run(torch.ones(2, 6))


def test_where_one_size_is_all_that_may_be_nothing_else_is_said():
    program = hx.export(OnlyFive(), torch.randn(2, 5), dynamic={"x": {0: "b", 1: "n>=5<=5"}})
    assert not program.report.promised


def in_a_chain(x):
    n = x.shape[0]
    if n == 3:
        return x + 0
    elif n == 4:
        return x * 2
    elif n == 50:
        return x * 7
    raise KeyError(n)


def in_a_table(x):
    return x * {3: 1, 4: 2, 50: 7}[x.shape[0]]


def in_a_list(x):
    return x * [4, 3, 50].index(x.shape[0])


@pytest.mark.parametrize("model", [in_a_chain, in_a_table, in_a_list])
def test_a_size_that_the_model_accepts_behind_sizes_that_it_refuses(model):
    """Between 4 and 50 is only an error: the questions before it say where the model goes on."""
    program = hx.export(model, torch.randn(3, 2), dynamic=[{0: "n"}])
    assert "n<=49 only" in str(program.report)
    for n in (3, 4):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program.run(x), model(x))


def between_two_sizes(x):
    return x * (2 if 15 in range(x.shape[0]) else 3)


def at_even_places(x):
    return x * (2 if x.shape[1] in range(0, x.shape[0], 2) else 3)


def test_a_number_looked_for_in_a_range_of_sizes():
    program = hx.export(between_two_sizes, torch.randn(3, 2), dynamic=[{0: "n"}], effort="low")
    assert "n<=15 only" in str(program.report)
    program = hx.export(at_even_places, torch.randn(4, 2), dynamic=[{0: "n"}])
    for n in (3, 5, 40):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program.run(x), at_even_places(x))


def test_a_library_makes_a_number_of_the_type_of_a_size():
    def model(x):
        return x * statistics.mean([x.shape[0], x.shape[0]])

    program = hx.export(model, torch.randn(3, 2), dynamic=[{0: "n"}])
    x = torch.randn(7, 2)
    torch.testing.assert_close(program.run(x), model(x))
