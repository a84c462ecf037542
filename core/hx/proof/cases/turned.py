"""The recorded inputs with another sign, or far smaller and larger: they may lead a model elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .tables import FEW

if TYPE_CHECKING:
    import torch


def opposite(tensor: torch.Tensor) -> torch.Tensor:
    """The same with the other sign; of what has none, as it is."""
    return -tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def positive(tensor: torch.Tensor) -> torch.Tensor:
    """The same without signs."""
    return tensor.abs() if tensor.is_floating_point() else tensor.clone()


def negative(tensor: torch.Tensor) -> torch.Tensor:
    return opposite(positive(tensor))


def small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor / 128 if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def large(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 128 if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def zeroed(tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """Zeros for all floats, and for those of each name: models ask whether something is there.

    No other number is as likely to be asked about, and none is as unlikely to be drawn.
    """
    import torch

    floats = [n for n, t in tensors.items() if t.is_floating_point() or t.is_complex()]
    alone = [[name] for name in floats] if 1 < len(floats) <= FEW else []
    return {
        f"zero {', '.join(names)}": {
            n: torch.zeros_like(t) if n in names else t for n, t in tensors.items()
        }
        for names in ([floats] if floats else []) + alone
    }
