"""What lies beyond the last round that a model was told to go."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx


class Doubling(nn.Module):
    """Sums up in as many steps as the logarithm of the length."""

    def forward(self, x):
        n, d = x.shape[0], 1
        while d < n:
            x = x + F.pad(x, (d, 0))[:n]
            d *= 2
        return x


class Fibonacci(nn.Module):
    def forward(self, x):
        n, d, after = x.shape[0], 1, 2
        while d < n:
            x = x + F.pad(x, (d, 0))[:n]
            d, after = after, d + after
        return x


@pytest.mark.parametrize("kind", [Doubling, Fibonacci])
def test_a_file_is_promised_as_far_as_its_rounds_go(kind):
    program = hx.export(kind(), torch.randn(60), dynamic={"x": {0: "t"}})
    start, _, most = program.report.promised["t"].partition("<=")
    assert start == "t" and int(most) >= 256
    for n in (1, 2, 77, int(most)):
        x = torch.ones(n)
        assert torch.allclose(program.run(x), kind()(x), rtol=1e-5)
    with pytest.raises(hx.HxError, match=f"right for t<={most} only"):
        program.run(torch.ones(int(most) + 1))


class Halving(nn.Module):
    def half(self, x):
        n = x.shape[0]
        if n == 1:
            return x[0]
        return torch.sin(self.half(x[: n // 2]) - self.half(x[n // 2 :]))

    def forward(self, x):
        return self.half(x)


def test_a_recursion_by_halves_comes_to_an_end():
    with pytest.raises(hx.VerificationError, match="t=6 inputs: wrong"):  # one graph has one depth
        hx.export(Halving(), torch.randn(5), dynamic={"x": {0: "t"}})
    program = hx.export(Halving(), torch.randn(5))
    x = torch.randn(5)
    assert torch.allclose(program.run(x), Halving()(x), atol=1e-6)


def test_loops_in_steps_are_proved_with_few_rounds():
    """A round for each fourth row: three, two and one of them are no three, two and one rows."""

    def model(x):
        total = torch.zeros(4)
        for begin in range(0, x.shape[0], 4):
            total = total * 0.5 + x[begin : begin + 4].sum(0)
        return total

    program = hx.export(model, torch.randn(12, 4), None, dynamic={"x": {0: "n"}})
    assert {"n=9", "n=5", "n=2"} <= {case.name for case in program.proof.cases}
