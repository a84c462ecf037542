"""Makes a model without memory for its weights: `--meta`.

Layers ask for their weights by `torch.empty`, and fill them afterwards. Here such memory is on the
meta device, where filling it does nothing. What is computed (tables, masks, frequencies) is
computed as ever, so it has contents; `torch.device("meta")` would lose those. Indices are computed
too, also where they are written into empty memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..contributions import without_weights
from .slim import SMALL

_EMPTY = (
    torch.empty,
    torch.empty_like,
    torch.empty_strided,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
)
_INDICES = (torch.bool, torch.int16, torch.int32, torch.int64)


class _Hollow(TorchFunctionMode):
    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _EMPTY:
            shape = func(*args, **{**kwargs, "device": "meta"})
            weight = shape.dtype not in _INDICES
            if weight and shape.numel() * shape.element_size() > SMALL:
                return shape
        return func(*args, **kwargs)


@contextlib.contextmanager
def hollow() -> Iterator[Any]:
    token = without_weights.set(True)
    try:
        with _Hollow():
            yield
    finally:
        without_weights.reset(token)
