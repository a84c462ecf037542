"""Models without memory for their weights: `--meta`.

Layers allocate their weights by `torch.empty` and fill them afterwards. Here such memory is on the
meta device, where filling it does nothing. Computed tensors (tables, masks, frequencies) are
computed as usual and keep their contents, which `torch.device("meta")` would lose. Indices are
computed, too, even if they are written into empty memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..budget import BUDGET
from ..contributions import without_weights

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
            if weight and shape.numel() * shape.element_size() > BUDGET.bytes.absent_weight:
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
