"""What PyTorch's fused encoder does beyond its layers, which a recording sees run one by one.

Without gradients, `nn.TransformerEncoder` packs a padded batch, drops the padding, and leaves
zeros in its place. It does so where all padding stands at the end: the graph asks the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .recording import Recording


def hooks(recording: Recording) -> dict[Any, Callable]:
    """What to hook of plain Python functions: function -> handler."""

    def encoder(original, args, kwargs):
        result = original(*args, **kwargs)
        return result if recording.busy else _emptied(result, *args, **kwargs)

    return {torch.nn.TransformerEncoder.forward: encoder}


def _emptied(
    result: torch.Tensor,
    self: Any,
    src: torch.Tensor,
    mask: torch.Tensor | None = None,
    src_key_padding_mask: torch.Tensor | None = None,
    is_causal: bool | None = None,
) -> torch.Tensor:
    """The result with nothing at padded places, as it passes through the last norm."""
    packs = getattr(self, "use_nested_tensor", False) and torch.backends.mha.get_fastpath_enabled()
    if not packs or self.layers[0].training or torch.is_autocast_enabled():
        return result
    if mask is not None or src_key_padding_mask is None or src.dim() != 3:
        return result
    there = src_key_padding_mask.logical_not()
    nothing = torch.zeros_like(result)
    if self.norm is not None:
        nothing = self.norm(nothing)
    kept = there.unsqueeze(-1)
    if getattr(self, "mask_check", True):
        after_a_gap = (there[:, 1:] > there[:, :-1]).sum()
        kept = kept | (after_a_gap > 0)
    return torch.where(kept, result, nothing)
