"""Rounds that differ by their number: the graph has it, and asks what the model asks of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx

torch.manual_seed(0)
LAYERS = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))


def every_other(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = LAYERS[0](h) + x[:, i] if i % 2 == 0 else LAYERS[1](h) - x[:, i]
    return h


def left_out(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        if i & 1:
            continue
        h = h * 0.9 + x[:, i]
    return h


def at_first(x):
    h = x[:, 0]
    for i in range(1, x.shape[1]):
        if i < 3:
            h = h + x[:, i]
        elif i < 5:
            h = h * 0.5
        else:
            h = h - x[:, i]
    return h


def of_three_kinds(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        match i % 3:
            case 0:
                h = torch.tanh(h + x[:, i])
            case 1:
                h = h - x[:, i]
            case _:
                h = h * 0.5
    return h


def up_to_the_middle(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = h + x[:, i] if i < x.shape[1] // 2 else h - x[:, i]
    return h


def some_of_them(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        if i in (0, 2, 5):
            h = h * 2
        h = h + x[:, i]
    return h


def far_from_one(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = 0.5 * h + x[:, i] * abs(i - 3)
    return h


def layers_in_turn(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = torch.tanh(LAYERS[i % 3](h) + x[:, i])
    return h


def listed(x):
    outs = []
    for i in range(x.shape[1]):
        if i % 2 == 0:
            outs.append(x[:, i])
        else:
            outs.append(x[:, i - 1] + x[:, i])
    return torch.stack(outs, 1)


def written(x):
    out = x.new_zeros(x.shape)
    for i in range(x.shape[1]):
        out[:, i] = x[:, i] * 2 if i % 2 == 0 else x[:, i] + out[:, i - 1]
    return out


def backwards(x):
    h = torch.zeros(x.shape[0], 4)
    for i in reversed(range(x.shape[1])):
        h = h + x[:, i] if i % 2 else h * 0.9
    return h


def in_steps(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(0, x.shape[1], 2):
        h = h + x[:, i] if i % 4 == 0 else h - x[:, i]
    return h


def beside_values(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = h + x[:, i] if i % 2 == 0 and x[:, i].sum() > 0 else h - x[:, i]
    return h


def chosen(x):
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = (torch.tanh if i % 2 else torch.sigmoid)(h + x[:, i])
    return h


def enumerated(x):
    h = torch.zeros(x.shape[0], 4)
    for i, row in enumerate(x.unbind(1)):
        h = h + row if i % 2 else 0.5 * h - row
    return h


def enumerated_from_one(x):
    h = torch.zeros(x.shape[0], 4)
    for i, row in enumerate(x.transpose(0, 1), start=1):
        h = torch.tanh(h + row) if i % 3 == 0 else h * row
    return h


def pieces(x):
    outs = []
    for i, piece in enumerate(x.split(1, 1)):
        outs.append(piece * 2 if i % 2 == 0 else -piece)
    return torch.cat(outs, 1)


def zipped(x):
    h = torch.zeros(x.shape[0], 4)
    for i, row in zip(range(x.shape[1]), x.unbind(1)):
        h = h + row if i % 2 else h - row
    return h


def window(x):
    return torch.stack([x[:, max(0, t - 19) : t + 1].mean(1) for t in range(x.shape[1])], 1)


def begun_anew_at_every_sixteenth(x):
    h = x[:, 0] * 0
    for t in range(x.shape[1]):
        h = torch.tanh(h + x[:, t])
        if t % 16 == 15:
            h = h * 0
    return h


def other_each_time(x):
    h = x[:, 0]
    for i in range(1, x.shape[1]):
        h = h * (1.0 / (i * i + 1)) + x[:, i]
    return h


WIDTHS = [1, 3, 2]


def widths_of_a_table(x):
    rows = []
    for i in range(x.shape[1]):
        rows.append(x[:, : i + 1].sum(1) * WIDTHS[i % 3])
    return torch.stack(rows, 1)


@pytest.mark.parametrize("model", [
    every_other, left_out, at_first, of_three_kinds, up_to_the_middle, some_of_them, far_from_one,
    layers_in_turn, listed, written, backwards, in_steps, beside_values, chosen, enumerated,
    enumerated_from_one, pieces, zipped, window, begun_anew_at_every_sixteenth, other_each_time,
    widths_of_a_table,
])  # fmt: skip
def test_rounds_that_differ_by_their_number(model):
    program = hx.export(model, torch.randn(2, 6, 4), dynamic={"x": {0: "b", 1: "n"}})
    assert "are a loop in the graph" in str(program.report)
    for n in (1, 2, 3, 7, 30, 101):
        x = torch.randn(3, n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def changed_far_off(x):
    """Not seen in any recording: but in the proof, at sizes well beyond."""
    h = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        h = h * 0.5 + x[:, i] if i < 300 else h * 0.25
    return h


def test_a_change_that_no_recording_has_seen():
    program = hx.export(changed_far_off, torch.randn(2, 6, 4), dynamic={"x": {1: "n"}})
    for n in (7, 299, 300, 301, 302, 900):
        x = torch.randn(2, n, 4)
        assert_close(program.run(x), changed_far_off(x), rtol=1e-4, atol=1e-4)


def each_pair(x):
    h = torch.zeros(4)
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                h = h + x[i] * x[j]
    return h


def test_what_would_take_too_many_recordings_is_refused_soon():
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(each_pair, torch.randn(6, 4), dynamic={"x": {0: "n"}})
    assert f"{__file__}:" in str(refused.value)
