"""What a file is promised for was tried at the edge of the promise, and within it."""

import math

import pytest
import torch
import torch.nn.functional as F
from tests.shared.lost_sizes import lost
from torch import nn

import hx


class Padded(nn.Module):
    """A convolution that mirrors as much as it needs, and more first where that is too much."""

    def __init__(self, kernel, stride):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv = nn.Conv1d(2, 2, kernel, stride)

    def forward(self, x):
        n, before = x.shape[-1], self.kernel - self.stride
        windows = math.ceil((n - self.kernel + before) / self.stride + 1)
        behind = (windows - 1) * self.stride + self.kernel - before - n
        more = 0
        if n <= max(before, behind):
            more = max(before, behind) - n + 1
            x = F.pad(x, (0, more))
        x = F.pad(x, (before, behind), "reflect")
        return self.conv(x[..., : x.shape[-1] - more])


def right_at(model, program, n):
    x = torch.randn(1, 2, n)
    with torch.no_grad():
        want = model(x)
    got = program.run(x)
    return got.shape == want.shape and torch.allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("kernels", [[(7, 1), (4, 2), (8, 4)], [(4, 2), (7, 1)]], ids=str)
def test_layers_that_pad_for_themselves_in_a_row(kernels):
    torch.manual_seed(0)
    model = nn.Sequential(*(Padded(*each) for each in kernels)).eval()
    program = hx.export(model, torch.randn(1, 2, 40), dynamic={"input": {2: "t"}})
    assert not program.report.promised
    assert all(right_at(model, program, n) for n in range(1, 60))
    program = hx.export(model, torch.randn(1, 2, 40), dynamic={"input": {2: "t"}}, effort="low")
    start, _, least = program.report.promised["t"].partition(">=")
    assert start == "t" and 1 < int(least) <= 20
    assert all(right_at(model, program, n) for n in range(int(least), 60))


class Steps(nn.Module):
    """Goes another way below 4; what it counts is not followed, and is another number below 10."""

    def forward(self, x):
        n = x.shape[-1]
        if n < 4:
            return x * 2
        return x + lost(min(n, 10))


def test_another_number_behind_the_edge_is_found():
    model = Steps()
    program = hx.export(model, torch.randn(1, 2, 40), dynamic={"x": {2: "t"}})
    assert program.report.promised == {"t": "t>=10"}
    assert any("within t>=4 it was wrong as well, at t=4" in n for n in program.report.notes)
    assert all(right_at(model, program, n) for n in range(10, 60))


def test_the_sizes_of_a_proof_are_within_its_promise():
    program = hx.export(
        lambda x: x[0] if len(x) == 13 else x, torch.randn(5, 4), dynamic={"x": {0: "n"}}
    )
    assert program.report.promised == {"n": "n<=12"} and program.proof.sizes["n"][1] <= 12
