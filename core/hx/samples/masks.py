"""Masks among the inputs: bools, whole numbers 0 and 1, and floats of two values that hide or keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def ends_of_mask(tensor: torch.Tensor, name: str = "") -> tuple[float, float] | None:
    """Return the two values that a mask holds, or None for a tensor that is no mask.

    Floats are 0 and 1, or the lowest number and 0. Whole numbers 1 alone may be anything, unless the
    name says that they are a mask.
    """
    import torch

    if not tensor.numel() or not tensor.dim() or tensor.is_complex():
        return None
    if tensor.layout is not torch.strided:
        return None
    if tensor.dtype is torch.bool:
        return 0, 1
    known = tensor.detach() if tensor.is_floating_point() else tensor.long()
    first, last = (end.item() for end in known.aminmax())
    if tensor.is_floating_point():
        lowest = first in (-float("inf"), torch.finfo(tensor.dtype).min)
        binary = (lowest or first in (0, 1)) and last in (0, 1)
        two = bool(((tensor == first) | (tensor == last)).all())
        return ((first, 0) if lowest else (0, 1)) if binary and two else None
    is_known = first == 0 or "mask" in name.lower()
    return (0, 1) if first in (0, 1) and last == 1 and is_known else None


def everywhere(
    tensors: Mapping[str, torch.Tensor], masks: Mapping[str, tuple[float, float]], end: int
) -> dict[str, torch.Tensor]:
    """Return inputs whose masks hold one of their two values (0 or 1) everywhere."""
    import torch

    return {
        name: torch.full_like(t, masks[name][end]) if name in masks else t
        for name, t in tensors.items()
    }
