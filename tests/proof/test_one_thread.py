"""A proof uses one thread, so sums and verdicts are the same on any number of cores."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import hx
from hx import runtime


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_a_proof_runs_the_model_in_one_thread_and_restores_the_number(three_threads):
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            seen.append(torch.get_num_threads())
            return x.relu()

    program = hx.export(Net(), torch.randn(2, 3), dynamic={"x": {0: "n"}}, check_every_node=True)
    assert program.proof.ok and len(seen) > len(program.proof.cases)
    assert seen[0] == 3, "the recording runs as the user does"
    assert set(seen[1:]) == {1}
    assert torch.get_num_threads() == 3


def test_sessions_use_one_thread_unless_a_benchmark_asks_for_more():
    assert runtime.options().intra_op_num_threads == 1
    assert runtime.options(5).intra_op_num_threads == 5
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert runtime.options(0).intra_op_num_threads == cores


class Sorted(nn.Module):
    """Sorts nearly equal scores, whose order depends on the last bit of a sum."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(256, 8, 1)

    def forward(self, x):
        scores = self.conv(x).flatten(1)
        best = scores.topk(100).indices
        return best, scores.cumsum(1).gather(1, best)


def test_an_order_that_another_number_of_threads_changes_is_no_difference(three_threads):
    model = Sorted().eval()
    x = torch.ones(2, 256, 14, 14) + 1e-6 * torch.randn(2, 256, 14, 14)
    with torch.no_grad():
        in_three = model(x)[0]
        torch.set_num_threads(1)
        in_one = model(x)[0]
        torch.set_num_threads(3)
    if torch.equal(in_three, in_one):
        pytest.skip("sums are the same in one thread and in three on this processor")
    report = hx.export(model, x).report
    assert report.state == "verified"
