"""Lists that rounds fill and join as far as they are, and rounds behind the last one."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx


def keys_and_values(x):
    keys, values, outs = [], [], []
    for row in x:
        keys.append(row)
        values.append(torch.tanh(row))
        shares = (torch.stack(keys, 1).t() @ row).softmax(0)
        outs.append(shares @ torch.stack(values))
    return torch.stack(outs)


def its_own_states(x):
    seen, h = [], torch.zeros(4)
    for row in x:
        seen.append(torch.tanh(h + row)[None])
        memory = torch.cat(seen)
        h = (memory @ row).softmax(0) @ memory
    return h, torch.cat(seen)


def read_behind_the_loop(x):
    seen, h = [], torch.zeros(4)
    for row in x:
        seen.append(torch.tanh(h + row))
        memory = torch.stack(seen)
        h = (memory @ row).softmax(0) @ memory
    return h, torch.stack(seen) * 2, memory.sum(0)


def mean_of_all_before(x):
    seen, h = [], torch.zeros(4)
    for i in range(x.shape[0]):
        seen.append(x[i])
        h = torch.tanh(h + torch.stack(seen).mean(0))
    return h


def grown_by_hand(x):
    memory, h = x[:0], torch.zeros(4)
    for row in x:
        memory = torch.cat([memory, torch.tanh(h + row)[None]])
        h = (memory @ row).softmax(0) @ memory
    return memory * 2, memory.mean(0), h


@pytest.mark.parametrize(
    "model",
    [keys_and_values, its_own_states, read_behind_the_loop, mean_of_all_before, grown_by_hand],
)
def test_what_was_joined_before_and_one_more(model):
    program = hx.export(model, torch.randn(5, 4), dynamic={"x": {0: "n"}})
    assert not program.report.promised
    for n in (1, 2, 3, 9, 25):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), msg=f"at {n}")


def test_features_that_are_joined_again_and_again_without_a_loop():
    def dense(x):
        features = [x]
        for _ in range(5):
            features.append(torch.tanh(torch.cat(features, 1)).sum(1, keepdim=True))
        return torch.cat(features, 1)

    program = hx.export(dense, torch.randn(3, 4), dynamic={"x": {0: "b"}})
    x = torch.randn(7, 4)
    assert_close(program.run(x), dense(x))


def less_in_the_last_round(x):
    h, count = torch.zeros(4), x.shape[0]
    for i in range(count):
        h = torch.tanh(h + x[i] * (i + 1))
        if i < count - 1:
            h = h * 0.5
    return h


def test_a_last_round_counts_on():
    """It reads the row behind those that the loop has read."""
    program = hx.export(less_in_the_last_round, torch.randn(5, 4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 3, 9, 25):
        x = torch.randn(n, 4)
        assert_close(program.run(x), less_in_the_last_round(x), msg=f"at {n}")
