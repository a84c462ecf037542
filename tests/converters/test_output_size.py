"""Transposed convolutions that are told how large their result is, as U-Nets do."""

import pytest
import torch
from torch import nn

import hx


class Back(nn.Module):
    """Down, and up again to where it was, whatever was left over."""

    def __init__(self, axes, kernel, stride, padding):
        super().__init__()
        torch.manual_seed(0)
        down, up = ((nn.Conv1d, nn.ConvTranspose1d), (nn.Conv2d, nn.ConvTranspose2d))[axes - 1]
        self.down, self.up = down(3, 4, kernel, stride, padding), up(4, 3, kernel, stride, padding)

    def forward(self, x):
        return x + self.up(self.down(x), output_size=x.shape[2:])


@pytest.mark.parametrize("how", [(3, 2, 1), (5, 3, 2), (4, 4, 0)], ids=str)
@pytest.mark.parametrize("axes", [1, 2])
def test_as_large_as_it_was(axes, how):
    model = Back(axes, *how)
    words = {0: "b"} | {2 + axis: f"n{axis}" for axis in range(axes)}
    program = hx.export(model, torch.randn(2, 3, *[16, 17][:axes]), dynamic={"x": words})
    assert not program.report.promised
    for n in (15, 16, 17, 18, 19, 30):
        x = torch.randn(1, 3, *[n, 35 - n][:axes])
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)
