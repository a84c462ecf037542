"""Arrays that NumPy makes of sizes, in terms of torch: the same numbers in the same shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ...ir.sizes import dims


def _counted_evenly(start, stop, num=50, *, dtype=torch.float64):
    """The numbers of np.linspace: steps from the first, and the last is the end itself."""
    steps = dims.larger(num - 1, 1)
    turn = torch.arange(num)
    between = turn.double() * ((stop - start) / steps) + start
    return torch.where(turn == steps, stop * 1.0, between).to(dtype)


def _stepped(*ends, dtype=None):
    of_floats = any(isinstance(n, float) for n in ends)
    return torch.arange(*ends, dtype=dtype or (torch.float64 if of_floats else torch.int64))


def _indices(dimensions, dtype=torch.int64):
    each = torch.meshgrid(*[torch.arange(n, dtype=dtype) for n in dimensions], indexing="ij")
    return torch.stack(each)


def _tri(N, M=None, k=0, dtype=torch.float64):
    return torch.tril(torch.ones(N, N if M is None else M, dtype=dtype), k)


def _places(maker, n, k, m):
    return tuple(maker(n, n if m is None else m, k).unbind())


def _window(*weights: float) -> Callable:
    """Return a function that makes a window of NumPy's: a weighted sum of cosines, from its middle."""

    def window(M):
        turn = math.pi * torch.arange(1 - M, M, 2).double() / dims.larger(M - 1, 1)
        return sum(weight * torch.cos(turn * i) for i, weight in enumerate(weights))

    return window


def _bartlett(M):
    return 1 - torch.arange(1 - M, M, 2).double().abs() / dims.larger(M - 1, 1)


MAKERS: dict[str, Callable] = {
    "arange": _stepped,
    "linspace": _counted_evenly,
    "ones": lambda shape, dtype=torch.float64: torch.ones(shape, dtype=dtype),
    "zeros": lambda shape, dtype=torch.float64: torch.zeros(shape, dtype=dtype),
    "identity": lambda n, dtype=torch.float64: torch.eye(n, dtype=dtype),
    "eye": lambda n, dtype=torch.float64: torch.eye(n, dtype=dtype),
    "full": lambda shape, x, dtype=None: torch.full(
        shape, x, dtype=dtype or (torch.int64 if isinstance(x, int) else torch.float64)
    ),
    "indices": _indices,
    "tri": _tri,
    "tril_indices": lambda n, k=0, m=None: _places(torch.tril_indices, n, k, m),
    "triu_indices": lambda n, k=0, m=None: _places(torch.triu_indices, n, k, m),
    "diag_indices": lambda n, ndim=2: (torch.arange(n),) * ndim,
    "hanning": _window(0.5, 0.5),
    "hamming": _window(0.54, 0.46),
    "blackman": _window(0.42, 0.5, 0.08),
    "bartlett": _bartlett,
}
