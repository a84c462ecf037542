"""A small network with known gradients, and a check that a test left nothing behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hx.torchworld import patching


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 10, 2, stride=2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(160, 5)

    def forward(self, x):
        return self.linear(self.flatten(self.relu(self.conv(x))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    return torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def traces():
    return _traces


def _traces(model=None):
    """What hooks could leave: in the engine, in PyTorch, on a model."""
    found = [
        *patching._codes,
        *range(torch._C._len_torch_function_stack()),
        *(nn.modules.module._global_forward_hooks or ()),
    ]
    for module in model.modules() if model is not None else ():
        found += [v for k, v in vars(module).items() if k.endswith("_hooks") and v]
        found += [p for p in module.parameters() if p._backward_hooks is not None]
    return found


@pytest.fixture(autouse=True)
def nothing_is_left():
    from hx.torchworld import stage

    call = nn.Module._call_impl.__code__
    yield
    assert nn.Module._call_impl.__code__ is call
    assert not _traces()
    here = stage._here.stage
    assert not (here.watchers or here.paused or here.mode or here.modules or here.functions)
