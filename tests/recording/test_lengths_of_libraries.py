"""Lengths that a library looks up for a size in C: heard where they are known, and tried far off."""

from __future__ import annotations

import functools
import sys
import types

import pytest
import torch

import hx

KERNEL = torch.rand(128)


def good_size(target, real=False):
    """As C reads it: nobody hears of it."""
    length = int.__index__(target)
    while True:
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 1


def convolved(x, length):
    whole = torch.fft.rfft(x, length) * torch.fft.rfft(KERNEL[: x.shape[1]], length)
    return torch.fft.irfft(whole, length)[:, : x.shape[1]]


def unknown(x):
    return convolved(x, good_size(2 * x.shape[1] - 1))


def plain(x):
    return convolved(x, sys.modules["scipy.fft"].next_fast_len(2 * x.shape[1] - 1))


def by_name(x):
    return convolved(
        x, sys.modules["scipy.fft"].next_fast_len(target=2 * x.shape[1] - 1, real=True)
    )


@pytest.fixture
def scipy(monkeypatch):
    package, module = types.ModuleType("scipy"), types.ModuleType("scipy.fft")
    module.next_fast_len = functools.lru_cache(good_size)
    monkeypatch.setitem(sys.modules, "scipy", package)
    monkeypatch.setitem(sys.modules, "scipy.fft", module)
    return module


@pytest.mark.parametrize("n", [10, 16])
@pytest.mark.parametrize("model", [unknown, plain, by_name])
def test_a_length_that_is_right_for_smaller_sizes_alone_is_not_promised(model, n, scipy):
    torch.manual_seed(0)
    with pytest.raises(hx.VerificationError):
        hx.export(model, torch.randn(2, n), dynamic={"x": {1: "n"}})


@pytest.mark.parametrize("model", [plain, by_name])
def test_what_is_looked_up_for_a_size_is_told_and_tried(model, scipy, line_of):
    kept = scipy.next_fast_len
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 60), dynamic={"x": {1: "n<=60"}})
    (left,) = program.report.escapes
    assert left.kind == "int" and "next_fast_len(2*n - 1" in left.detail and "tried at" in str(left)
    for n in (2, 30, 60):
        x = torch.randn(2, n)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)
    assert scipy.next_fast_len is kept
