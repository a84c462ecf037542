"""Small model to try things on: `hx export hx.demo:model -o demo.onnx`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Demo(nn.Module):
    """Two convolutions with a branch around the second, and a classifier."""

    def __init__(self, channels: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, channels, 1)
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.stem(image))
        x = F.relu(self.body(x) + self.shortcut(x))
        return self.head(x.mean(dim=(2, 3)))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return the model and example inputs: the same numbers at every call, from no global RNG."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Demo().eval(), (torch.randn(2, 3, 16, 16),)
