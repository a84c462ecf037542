"""A limit on the results of a run: it ends work that follows from values."""

from __future__ import annotations

import pytest
import torch

from hx.torchworld.modes.float64_mode import Float64Mode
from hx.torchworld.modes.result_limit import ResultLimit, TooManyResults
from hx.torchworld.modes.run_mode import RunMode


def sampled(x):
    """The mean over as many points as the largest value says."""
    count = int(x.abs().max().item() * 50) + 1
    return x * torch.linspace(0, 1, count * count).reshape(count, count).mean()


def test_a_run_ends_once_its_results_are_too_large():
    with pytest.raises(TooManyResults), RunMode(ResultLimit(1 << 20)):
        sampled(torch.full((2,), 40.0))


def test_a_run_within_the_limit_gives_its_result():
    with RunMode(ResultLimit(1 << 20)):
        y = sampled(torch.ones(2))
    assert torch.equal(y, sampled(torch.ones(2)))


def test_a_model_cannot_catch_it():
    def careful(x):
        try:
            return sampled(x)
        except Exception:
            return x

    with pytest.raises(TooManyResults), RunMode(ResultLimit(1 << 20)):
        careful(torch.full((2,), 40.0))


def test_views_that_repeat_an_element_take_no_room():
    with RunMode(ResultLimit(1 << 20)):
        assert torch.zeros(1).expand(1 << 20).shape == (1 << 20,)


@pytest.mark.parametrize("mode", [lambda: ResultLimit(1 << 20), Float64Mode])
def test_functions_that_compile_themselves_run_as_they_are_written(mode):
    """PyTorch cannot trace through a mode, and what it kept of the attempt failed later on."""

    def model(x):
        return torch.cond(x.min() < 0, lambda x: x + 1, lambda x: x * 2, (x,))

    x = torch.randn(3, 4)
    before = model(x)
    with RunMode(mode()):
        inside = model(x)
    torch.testing.assert_close(inside.to(x.dtype), before)
    assert torch.equal(model(x), before)
