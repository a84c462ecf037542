"""Samples with another sign, or far smaller and larger values: they may lead a model elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..budget import BUDGET

if TYPE_CHECKING:
    import torch


def opposite(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with opposite signs; integers and bools are unchanged."""
    return -tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def positive(tensor: torch.Tensor) -> torch.Tensor:
    """Return the absolute values of floats; other tensors stay."""
    return tensor.abs() if tensor.is_floating_point() else tensor.clone()


def negative(tensor: torch.Tensor) -> torch.Tensor:
    return opposite(positive(tensor))


def small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor / 128 if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def large(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 128 if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def mixed(tensor: torch.Tensor) -> torch.Tensor:
    """Return large values of both signs; where both occur, each has the other one.

    A condition within another one may need both: `if x.max() > 1: if x.min() < 0:`.
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return large(opposite(tensor))
    known = tensor.isfinite()
    finite = tensor[known]
    one_sign = bool((finite >= 0).all() or (finite <= 0).all())
    turned = tensor - finite.mean() if one_sign and finite.numel() else -tensor
    return large(turned.where(known, tensor))


def zeroed(tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """Return inputs of zeros: for all floats, and for those of each name.

    Models ask whether something is there: no other number is as likely to occur in a question, and
    none is as unlikely to be drawn.
    """
    import torch

    floats = [n for n, t in tensors.items() if t.is_floating_point() or t.is_complex()]
    alone = [[name] for name in floats] if 1 < len(floats) <= BUDGET.runs.zeroed_inputs else []
    return {
        f"zero {', '.join(names)}": {
            n: torch.zeros_like(t) if n in names else t for n, t in tensors.items()
        }
        for names in ([floats] if floats else []) + alone
    }
