"""Loops whose rounds give as many elements each as it happens to be: what they find, or the last
one's shorter piece."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close

import hx

LAYER = nn.Linear(6, 4)


def found_in_each_row(x):
    return torch.cat([x[i][x[i] > 0] for i in range(x.shape[0])])


def counted_too(x):
    found = [row[row > 0] for row in x]
    lengths = torch.tensor([0] + [len(each) for each in found]).cumsum(0)
    return torch.cat(found), lengths


def two_lists(x):
    large, small = [], []
    for row in x:
        large.append(row[row > 0])
        small.append(row[row <= 0] * 2)
    return torch.cat(large), torch.cat(small)


def read_again(x):
    found = [row[row > 0] for row in x]
    return torch.stack([each.sum() for each in found])


def but_the_first(x):
    return torch.cat([row[row > 0] for row in x][1:])


def with_its_number(x):
    outs = []
    for i in range(x.shape[0]):
        at = (x[i] > 0).nonzero().squeeze(1)
        outs.append(torch.stack([torch.full_like(at, i), at], 1))
    return torch.cat(outs, 0)


def padded_to_the_longest(x):
    found = [row[row > 0] for row in x]
    return pad_sequence(found, batch_first=True), pad_sequence(found, padding_side="left")


def padded_to_a_number(x):
    return torch.stack([F.pad(row[row > 0], (0, 6 - len(row[row > 0]))) for row in x])


def in_pieces(x):
    return torch.cat([torch.softmax(LAYER(piece), 0) for piece in x.split(4)])


def by_the_length_of_each_piece(x):
    return torch.stack([F.pad(p / p.shape[0], (0, 0, 0, 4 - p.shape[0])) for p in x.split(4)])


def attention_in_pieces(x):
    keys = x.view(-1, 2, 3).transpose(0, 1)
    outs = []
    for piece in x.split(4):
        n = piece.shape[0]
        q = piece.reshape(n, 2, 3).transpose(0, 1)
        outs.append(F.scaled_dot_product_attention(q, keys, keys).transpose(0, 1).reshape(n, 6))
    return torch.cat(outs)


def in_pieces_of_one(x):
    return torch.stack([piece.sum() for piece in x.split(1)])


def in_slices(x):
    return torch.cat([torch.softmax(x[i : i + 4], 0) for i in range(0, len(x), 4)])


def carried_over_pieces(x):
    h, outs = torch.zeros(6), []
    for i, piece in enumerate(x.split(4)):
        h = torch.tanh(h + piece.sum(0) * i)
        outs.append(piece * h)
    return torch.cat(outs), h


def the_last_of_them(x):
    outs = [torch.relu(x[i : i + 3]) for i in range(0, len(x), 3)]
    return torch.cat(outs), outs[-1] * 2, outs[0].sum(1)


def all_behind_each(x):
    return torch.cat([x[i] * x[i:] for i in range(len(x))])


@pytest.mark.parametrize(
    "model",
    [
        found_in_each_row, counted_too, two_lists, read_again, but_the_first, with_its_number,
        padded_to_the_longest, padded_to_a_number, in_pieces, by_the_length_of_each_piece,
        attention_in_pieces, in_pieces_of_one, in_slices, carried_over_pieces, all_behind_each,
        the_last_of_them,
    ],
)  # fmt: skip
@pytest.mark.parametrize("opset", [13, 20])
def test_any_number_of_rounds_of_any_length(model, opset):
    program = hx.export(model, torch.randn(8, 6), dynamic={"x": {0: "n"}}, opset=opset, strict=True)
    assert "Loop" in {node.op_type for node in program.model.graph}
    least = 2 if model is but_the_first else 1
    for n in (least, 3, 4, 5, 8, 12, 13, 40):
        for x in (torch.randn(n, 6), torch.randn(n, 6).abs()):
            assert_close(program.run(x), model(x), rtol=1e-5, atol=1e-5)
    nothing = -torch.rand(5, 6)
    assert_close(program.run(nothing), model(nothing), rtol=1e-5, atol=1e-5)


def each_padded_to_the_longest(x):
    """As text to speech lays out its frames."""
    found, lengths = [], []
    for row, spoken in zip(x, x > 0):
        frames = row[spoken] * 2
        found.append(frames)
        lengths.append(frames.shape[0])
    longest, padded = max(lengths), []
    for frames in found:
        padded.append(F.pad(frames, (0, longest - frames.size(0)), "constant", 0.0))
    return torch.stack(padded), torch.tensor(lengths)


def each_as_long_as_it_lasts(x):
    """As text to speech regulates lengths."""
    lasting = (x.abs() * 2).round().long()
    found = [torch.repeat_interleave(row, times, 0) for row, times in zip(x, lasting)]
    longest = max(len(each) for each in found)
    return torch.stack([F.pad(each, (0, longest - len(each))) for each in found])


def filled_in(x):
    found = [row[row > 0] for row in x]
    longest = max(len(each) for each in found)
    laid, mask = x.new_zeros(len(x), longest), torch.ones(len(x), longest, dtype=torch.bool)
    for i, each in enumerate(found):
        laid[i, : each.shape[0]] = each
        mask[i, : each.shape[0]] = False
    return laid.masked_fill(mask, -1.0)


def filled_in_by_their_number(x):
    found = [row[row > 0] for row in x]
    laid = x.new_zeros(len(found), max(each.size(0) for each in found))
    for i, each in enumerate(found):
        laid[i, : each.size(0)] = each
    return laid


def cut_to_the_shortest(x):
    found = [row[row > 0] for row in x]
    shortest = min(each.shape[0] for each in found)
    return torch.stack([each[:shortest] * 2 for each in found])


@pytest.mark.parametrize(
    "model",
    [
        each_padded_to_the_longest, each_as_long_as_it_lasts, filled_in, filled_in_by_their_number,
        cut_to_the_shortest,
    ],
)  # fmt: skip
def test_as_long_as_the_longest_of_what_the_rounds_give(model):
    """The largest of a list is worked out once, and no round is as long as the list."""
    program = hx.export(model, torch.randn(8, 6), dynamic={"x": {0: "n"}})
    assert not program.report.promised
    for n in (1, 2, 3, 8, 12, 40):
        x = torch.randn(n, 6)
        assert_close(program.run(x), model(x))


def test_the_halves_of_a_size_are_no_rounds():
    def gated(x):
        a, b = x.chunk(2)
        return a * torch.sigmoid(b)

    program = hx.export(gated, torch.randn(8, 6), dynamic={"x": {0: "n%2"}})
    assert "Loop" not in {node.op_type for node in program.model.graph}
    x = torch.randn(14, 6)
    assert_close(program.run(x), gated(x))


def the_mean_of_each(x, lengths):
    return torch.stack([x[i, : lengths[i]].mean(0) for i in range(len(x))])


def all_in_a_row(x, lengths):
    return torch.cat([x[i, :n] for i, n in enumerate(lengths.tolist())])


def masked(x, lengths):
    there = torch.zeros(x.shape[:2], dtype=torch.bool)
    for i, n in enumerate(lengths):
        there[i, :n] = True
    return x * there[..., None]


def each_backwards(x, lengths):
    outs = []
    for i in range(len(x)):
        n = int(lengths[i])
        outs.append(torch.cat([x[i, :n].flip(0), x[i, n:]]))
    return torch.stack(outs)


def attention_within_each(x, lengths):
    outs = []
    for i in range(len(x)):
        q = x[i, : lengths[i]]
        outs.append((torch.softmax(q @ q.T, -1) @ q).sum(0))
    return torch.stack(outs)


def split_by_lengths(x, lengths):
    rows = x.reshape(-1, x.shape[-1])[: int(lengths.sum())]
    return torch.stack([part.mean(0) for part in torch.split(rows, lengths.tolist())])


def one_behind_the_other(x, lengths):
    rows, at, outs = x.reshape(-1, x.shape[-1]), 0, []
    for n in lengths.tolist():
        outs.append(rows[at : at + n].mean(0))
        at += n
    return torch.stack(outs)


def padded_again(x, lengths):
    return pad_sequence([x[i, : lengths[i]] for i in range(len(x))], batch_first=True)


def resized(x, lengths):
    outs = [
        F.interpolate(image[None, None, : n + 1], size=(4, 4), mode="bilinear")[0]
        for image, n in zip(x, lengths)
    ]
    return torch.cat(outs)


@pytest.mark.parametrize(
    "model",
    [
        the_mean_of_each, all_in_a_row, masked, each_backwards, attention_within_each,
        split_by_lengths, one_behind_the_other, padded_again, resized,
    ],
)  # fmt: skip
def test_lengths_that_are_given(model):
    def drawn(b, n):
        return torch.randn(b, n, 4), torch.randint(1, n + 1, (b,))

    dynamic = {"x": {0: "b", 1: "n"}, "lengths": {0: "b"}}
    program = hx.export(model, drawn(3, 7), dynamic=dynamic)
    assert "are a loop in the graph" in str(program.report)
    for b, n in ((1, 1), (2, 5), (4, 9), (5, 2), (11, 6), (8, 30)):
        x, lengths = drawn(b, n)
        assert_close(program.run(x, lengths), model(x, lengths), rtol=1e-4, atol=1e-5)


def cut_to_the_longest(x, lengths):
    longest = max(lengths.tolist())
    return x[:, :longest] * (torch.arange(longest) < lengths[:, None])[..., None]


def one_by_one(x, lengths):
    return x[:, : max(int(n) for n in lengths)] * min([n.item() for n in lengths])


def those_that_there_are(x, lengths):
    return x.reshape(-1, 4)[: sum(lengths.tolist())] * 2


@pytest.mark.parametrize("model", [cut_to_the_longest, one_by_one, those_that_there_are])
def test_the_largest_and_the_sum_of_lengths_that_are_given(model):
    lengths = torch.tensor([5, 6, 2])
    dynamic = {"x": {0: "b", 1: "n"}, "lengths": {0: "b"}}
    program = hx.export(model, (torch.randn(3, 7, 4), lengths), dynamic=dynamic)
    for given, n in (([5], 5), ([3, 3], 9), ([1, 4, 2, 8, 3], 8), ([2, 1, 1, 1], 2)):
        x, lengths = torch.randn(len(given), n, 4), torch.tensor(given)
        assert_close(program.run(x, lengths), model(x, lengths))


def means_of_spans(x, table):
    return torch.stack([x[begin:end].mean(0) for begin, end in table.tolist()])


def largest_in_boxes(x, table):
    outs = []
    for box in table.float().long().tolist():
        left, top, right, bottom = box
        outs.append(F.adaptive_max_pool2d(x[None, top : bottom + 1, left : right + 1], 2))
    return torch.cat(outs)


def pasted(x, table):
    outs = []
    for left, top, right, bottom in table.tolist():
        page = torch.zeros(16, 16)
        size = bottom - top, right - left
        page[top:bottom, left:right] = F.interpolate(x[None, None], size=size)[0, 0]
        outs.append(page)
    return torch.stack(outs)


def each_found(x, table):
    return torch.stack([x[i, j] * 2 for i, j in (x > 0).nonzero().tolist()]), table


def spans(many):
    begins = torch.randint(0, 9, (many, 1))
    return torch.cat([begins, begins + torch.randint(1, 4, (many, 1))], 1)


def boxes(many):
    return torch.cat([spans(many), spans(many)], 1)[:, [0, 2, 1, 3]]


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (means_of_spans, spans), (largest_in_boxes, boxes), (pasted, boxes), (each_found, spans),
    ],
)  # fmt: skip
def test_a_row_of_a_table_in_each_round(model, rows):
    program = hx.export(model, (torch.randn(12, 12), rows(5)), dynamic={"table": {0: "rows"}})
    assert not program.report.promised
    for many in (1, 2, 5, 19):
        x, table = torch.randn(12, 12), rows(many)
        assert_close(program.run(x, table), model(x, table))


def test_a_first_round_alone():
    """The first round, which begins with a constant, is left out of the loop: it may be the only one."""

    def farthest(x):
        batch, count, _ = x.shape
        places = torch.arange(batch)
        chosen = torch.zeros(batch, count // 2, dtype=torch.long)
        distance = torch.ones(batch, count) * 1e10
        last = torch.zeros(batch, dtype=torch.long)
        for i in range(count // 2):
            chosen[:, i] = last
            far = ((x - x[places, last][:, None]) ** 2).sum(-1)
            nearer = far < distance
            distance[nearer] = far[nearer]
            last = distance.max(-1)[1]
        return chosen

    program = hx.export(farthest, torch.randn(2, 10, 3), dynamic={"x": {1: "n"}})
    for n in (2, 3, 9, 24):
        x = torch.randn(2, n, 3)
        assert_close(program.run(x), farthest(x))


def test_a_table_of_numbers_is_a_tensor_again():
    def model(x):
        return torch.tensor(x.tolist()) * 2

    program = hx.export(model, torch.randn(4, 3), dynamic={"x": {0: "n"}})
    x = torch.randn(7, 3)
    assert_close(program.run(x), model(x))


def test_one_row_is_compared_with_another():
    """The largest of lists is no largest number."""

    def model(x):
        return x + max(x.long().tolist())[1]

    try:
        program = hx.export(model, torch.randn(4, 3) * 9, dynamic={"x": {0: "n"}})
    except hx.VerificationError:
        return
    for n in (2, 9):
        x = torch.randn(n, 3) * 9
        assert_close(program.run(x), model(x))
