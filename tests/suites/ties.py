"""Operators that pick one of several equal elements, and do not promise which one.

Two results of such an operator are the same when the elements that they picked are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Where the axis stands among the arguments after the input; None where there is none.
AXIS = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0,
        "nanmedian": 0, "argmax": 0, "argmin": 0, "max.reduction_with_dim": 0,
        "min.reduction_with_dim": 0}  # fmt: skip


def same_picks(name: str, sample: Any) -> Callable[[list, list], bool] | None:
    if name not in AXIS:
        return None
    x = sample.input if sample.input.dim() else sample.input.unsqueeze(0)
    place = AXIS[name]
    axis = sample.kwargs.get("dim")
    if axis is None and place is not None and len(sample.args) > place:
        axis = sample.args[place]
    if not isinstance(axis, int) or isinstance(axis, bool):
        axis = 0 if name == "msort" else -1

    def picked(index: torch.Tensor) -> torch.Tensor:
        if index.dim() < x.dim():
            index = index.unsqueeze(axis)
        return x.gather(axis, index)

    def same(found: list, expected: list) -> bool:
        for mine, real in zip(found, expected):
            if mine.shape != real.shape or mine.dtype != real.dtype:
                return False
            if not torch.equal(mine, real):
                if mine is not found[-1] or mine.dtype != torch.int64:
                    return False
                if not torch.equal(picked(mine), picked(real)):
                    return False
        return True

    return same
