"""A library as people have them: a function, and a layer on an operator of its own.

It knows nothing of ONNX or hx. The packs `hx-hardswish` and `hx-spline` convert it.
"""

import numpy as np
import torch
from torch import Tensor, nn


def hardswish(x: Tensor, width: float = 3.0) -> Tensor:
    """`x` where it is above `width`, 0 where it is below `-width`, and a parabola between."""
    return x * torch.clamp(x + width, 0, 2 * width) / (2 * width)


@torch.library.custom_op("acme::spline", mutates_args=())
def spline(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """A piecewise linear curve through (knots, values), constant beyond its ends.

    Its kernel is not written in torch: who looks from there sees an operator and nothing inside.
    """
    curve = np.interp(*(t.detach().cpu().numpy() for t in (x, knots, values)))
    return torch.from_numpy(curve).to(x)


@spline.register_fake
def _(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    return torch.empty_like(x)


class Spline(nn.Module):
    """A learned activation: every number goes through the same curve."""

    def __init__(self, pieces: int = 8) -> None:
        super().__init__()
        self.register_buffer("knots", torch.linspace(-2, 2, pieces + 1))
        self.values = nn.Parameter(torch.linspace(-2, 2, pieces + 1).tanh())

    def forward(self, x: Tensor) -> Tensor:
        return spline(x, self.knots, self.values)


class Masked:
    """Numbers, and which of them count. To this library it is one thing; it holds two tensors."""

    def __init__(self, numbers: Tensor, counts: Tensor) -> None:
        self.numbers, self.counts = numbers, counts


def settle(batch: Masked, default: float = 0.0) -> Masked:
    """What does not count becomes the default, and counts from then on."""
    settled = torch.where(batch.counts, batch.numbers, default)
    return Masked(settled, torch.ones_like(batch.counts))


class Regressor(nn.Module):
    """Two linear layers with a spline between them."""

    def __init__(self, features: int = 6, width: int = 16) -> None:
        super().__init__()
        self.inner = nn.Linear(features, width)
        self.curve = Spline()
        self.outer = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.curve(self.inner(x)))


def regressor() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model and example inputs, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Regressor(), (torch.randn(4, 6),)
