"""The longest sum of a file, at the sizes of a case, and the tolerance that follows from it."""

import onnx
import pytest
import torch
import torch.nn.functional as F

import hx
from hx.proof.differences.allowance import longest_reduction
from hx.proof.differences.compare import OF_SUMS, Tolerance, difference, of_sums

N, WIDE = 1750, 3


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


CALLS = {
    "sum": (lambda x: x.sum(0), N),
    "sum of all": (lambda x: x.sum(), N * WIDE),
    "weighted": (lambda x: (x * x.exp()).sum(), N * WIDE),
    "mean": (lambda x: x.mean(0), N),
    "variance": (lambda x: x.var(0), N),
    "norm": (lambda x: x.norm(), N * WIDE),
    "running": (lambda x: x.cumsum(0), N),
    "product": (lambda x: x.T @ x, N),
    "einsum": (lambda x: torch.einsum("ni,nj->ij", x, x), N),
    "softmax": (lambda x: x.softmax(0), N),
    "gathered": (lambda x: F.nll_loss(x.log_softmax(1), x.argmax(1)), N),
    "scattered": (lambda x: x.new_zeros(3, 3).index_add(0, x.argmax(1), x), N * WIDE),
    "pooled": (lambda x: F.adaptive_avg_pool1d(x.T, 1), N),
    "distances": (lambda x: torch.cdist(x, x).sum(), N * N),
    "largest": (lambda x: x.amax(0), 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_longest_sum_of_a_file_is_known_at_other_sizes(name, tmp_path):
    function, length = CALLS[name]
    path = tmp_path / "m.onnx"
    hx.export(
        Calls(function), (torch.rand(6, WIDE),), path, dynamic={"x": {0: "n"}}, input_names=["x"]
    )
    longest = longest_reduction(onnx.load(path), {"n": N})
    assert length <= longest <= max(WIDE * length, 8)


def test_long_sums_may_differ_by_more_than_a_few_steps():
    want = torch.rand(100) + 1
    for longest in (10_000, 1_000_000):
        most = of_sums(torch.float32, longest)
        assert most == OF_SUMS * 2**-24 * longest**0.5
        tolerance = Tolerance.for_dtype(torch.float32, longest=longest)
        assert not difference(want * (1 + 0.4 * most), want, tolerance).problem
        assert difference(want * (1 + 0.6 * most), want, tolerance).problem  # everywhere
        one = want.clone()
        one[want.argmax()] *= 1 + 0.9 * most
        assert not difference(one, want, tolerance).problem
        one[want.argmax()] = want.max() * (1 + 1.2 * most)
        assert difference(one, want, tolerance).problem
