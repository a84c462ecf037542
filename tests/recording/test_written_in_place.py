"""Functions that write to what they are given, or not, as their `inplace` says."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx


class Net(nn.Module):
    """Reads a weight of its own before and after a call that may write to it."""

    def __init__(self, call):
        super().__init__()
        self.call = call
        self.register_buffer("shift", torch.linspace(-1, 1, 6).reshape(2, 3))

    def forward(self, x):
        before = x + self.shift
        made = self.call(self.shift)
        return before, x * self.shift, made + x


@pytest.mark.parametrize("call", [
    F.relu,
    lambda w: F.relu(w, False),
    lambda w: F.relu(w, True),
    lambda w: F.relu(w, inplace=True),
    lambda w: F.relu(inplace=True, input=w),
    lambda w: F.hardtanh(w, -0.5, 0.5, True),
    lambda w: F.leaky_relu(w, 0.1, inplace=1),
    lambda w: F.dropout(w, 0.5, False),
    lambda w: F.dropout(w, 0.5, False, True).mul_(2),
    lambda w: F.dropout(w, p=0.5, training=False).mul_(2),
    lambda w: F.silu(w, inplace=not False),
])  # fmt: skip
def test_a_weight_is_read_as_it_was(call):
    model = Net(call)
    kept = model.shift.clone()
    program = hx.export(model, torch.rand(2, 3), verify=False)
    assert torch.equal(model.shift, kept)
    x = torch.randn(2, 3)
    for found, wanted in zip(program.run(x), Net(call)(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(found), wanted)
