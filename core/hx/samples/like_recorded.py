"""Inputs that are more like the recorded ones, for a model that refuses others of their kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..budget import BUDGET
from .number_properties import is_whole
from .sequence_lengths import lengths_as_recorded

if TYPE_CHECKING:
    import torch

Inputs = Mapping[str, "torch.Tensor"]


def more_like_recorded(recorded: Inputs, tensors: Inputs) -> dict[str, torch.Tensor] | None:
    """Return inputs with lengths, and columns of whole numbers, as recorded; None if that changes nothing."""
    made = lengths_as_recorded(recorded, tensors)
    for name, old in recorded.items():
        if name in tensors and _is_table(old) and tensors[name].shape[-1:] == old.shape[-1:]:
            made[name] = _within_columns(old, tensors[name])
    if all(new.equal(tensors[name]) for name, new in made.items()):
        return None
    return {**tensors, **made}


def _is_table(old: torch.Tensor) -> bool:
    return is_whole(old) and old.dim() == 2 and 1 < old.shape[1] <= BUDGET.elements.columns


def _within_columns(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Return numbers within the recorded range of their column: each may have its own meaning."""
    low, high = old.long().amin(0), old.long().amax(0)
    return (low + (new.long() - low) % (high - low + 1)).to(new.dtype)
