"""Behaviour of PyTorch's fused encoder that its layers, recorded one by one, do not show.

Without gradients, `nn.TransformerEncoder` packs a padded batch, drops the padding, and leaves
zeros in its place. It does so where all padding stands at the end: the graph asks the same. A fused
layer gives NaN, not a number, to a position from which all others are hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..recording import Recording


def hooks(recording: Recording) -> dict[Any, Callable]:
    """The handlers of plain Python functions, by function."""

    def encoder(original, args, kwargs):
        result = original(*args, **kwargs)
        return result if recording.running.busy else _emptied(result, *args, **kwargs)

    def layer(original, args, kwargs):
        result = original(*args, **kwargs)
        return result if recording.running.busy else _unseeing(result, *args, **kwargs)

    return {
        torch.nn.TransformerEncoder.forward: encoder,
        torch.nn.TransformerEncoderLayer.forward: layer,
    }


def _emptied(
    result: torch.Tensor,
    self: Any,
    src: torch.Tensor,
    mask: torch.Tensor | None = None,
    src_key_padding_mask: torch.Tensor | None = None,
    is_causal: bool | None = None,
) -> torch.Tensor:
    """The result with nothing at padded places, as it passes through the last norm."""
    packs = getattr(self, "use_nested_tensor", False) and _is_fused(self.layers[0])
    if not packs:
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


def _is_fused(layer: Any) -> bool:
    on = torch.backends.mha.get_fastpath_enabled() and not torch.is_autocast_enabled()
    return on and not layer.training


def _unseeing(
    result: torch.Tensor,
    self: Any,
    src: torch.Tensor,
    src_mask: torch.Tensor | None = None,
    src_key_padding_mask: torch.Tensor | None = None,
    is_causal: bool = False,
) -> torch.Tensor:
    """The result with NaN at positions from which the masks hide all others."""
    attention = self.self_attn
    alike = attention.batch_first and attention._qkv_same_embed_dim and src.dim() == 3
    even = attention.num_heads % 2 == 0 and self.norm1.eps == self.norm2.eps
    known = attention.in_proj_bias is not None and self.activation_relu_or_gelu
    if not (_is_fused(self) and alike and even and known):
        return result
    hidden = []
    if src_key_padding_mask is not None:
        hidden.append(src_key_padding_mask.bool()[:, None, None])
    if src_mask is not None:
        mask = src_mask.bool()
        heads = (src.shape[0], attention.num_heads, *mask.shape[-2:])
        hidden.append(mask.reshape(heads) if mask.dim() == 3 else mask[None, None])
    if not hidden:
        return result
    both = hidden[0] if len(hidden) == 1 else hidden[0] | hidden[1]
    return torch.where(both.all(-1).any(1).unsqueeze(-1), torch.nan, result)
