"""Small models with any forward, and what an export of one gives while the world stays as it was."""

from __future__ import annotations

import contextlib

import torch
import torch._dynamo  # before a world is read: an export may load it
from torch import nn
from torch.overrides import TorchFunctionMode

import hx

nothing = contextlib.nullcontext


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc2 = nn.Linear(4, 4)
        self.handle = None

    def forward(self, x):
        return self.fc2(self.fc(x).relu())


def of(forward):
    """A model with this forward."""
    return type("Odd", (Base,), {"forward": forward})()


class Passes(TorchFunctionMode):
    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def looked_at(World, model, around=nothing):
    """What the file gives on other inputs than the recorded ones, and what the model gives."""
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    with around():
        world = World(model if isinstance(model, nn.Module) else nn.Module())
        try:
            program = hx.export(model, x)
        finally:
            world.require_unchanged("after the export")
        assert program.proof.ok
    return program.run(y), y
