"""Memory that a run with larger numbers may take, if sizes are read from these numbers."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ...ir.escapes import Escape
from ...ir.sizes.comparisons import At
from ..trace import Trace

GROWTH_OF_VALUES = 4  # times as large are numbers that are not as the recorded ones


def expected_memory(
    trace: Trace, escapes: Iterable[Escape], tensors: dict[str, torch.Tensor]
) -> float:
    """Bytes of results that larger numbers may lead to; 0 if no size is read from them."""
    if not any(each.kind in ("item", "tolist") for each in escapes):
        return 0
    times = max((_largest(t) / (_largest(trace.recipe.inputs[k]) or 1)
                 for k, t in tensors.items() if k in trace.recipe.inputs), default=1)  # fmt: skip
    if times <= GROWTH_OF_VALUES:
        return 0
    return trace.graph.work.memory(At({}), times)


def _largest(tensor: torch.Tensor) -> float:
    if not tensor.numel() or tensor.is_complex() or tensor.is_meta:
        return 0
    return float(tensor.detach().double().abs().nan_to_num(0, 0, 0).max())
