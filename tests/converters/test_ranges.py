"""Numbers in steps, of which there are as many as PyTorch counts."""

import pytest
import torch

import hx

RANGES = {
    "seconds": lambda x: torch.arange(0, x.shape[1] / 16000, 1 / 16000),
    "shares": lambda x: torch.arange(0, 1, 1 / x.shape[1]),
    "both sides": lambda x: torch.arange(-1, 1, 2 / x.shape[1]),
    "tenths": lambda x: torch.arange(0, x.shape[1], 0.1),
    "tenths of a size": lambda x: torch.arange(0, x.shape[1] * 0.1, 0.1),
    "backwards": lambda x: torch.arange(x.shape[1], 0, -0.7),
    "of data": lambda x: torch.arange(0, x.abs().sum().item() + 1, 0.3),
}


@pytest.mark.parametrize("name", RANGES)
def test_as_many_as_pytorch_counts(name):
    function = RANGES[name]
    program = hx.export(function, torch.ones(1, 16), None, dynamic={"x": {1: "s"}})
    for size in [*range(2, 60), 99, 300, 1601]:
        x = torch.ones(1, size)
        torch.testing.assert_close(program.run(x), function(x), rtol=3e-6, atol=1e-6)
