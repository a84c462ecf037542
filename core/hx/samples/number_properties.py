"""Properties of an input's numbers that its samples must keep: whole numbers, rising numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_whole(tensor: torch.Tensor) -> bool:
    import torch

    kind = tensor.dtype
    return not (kind.is_floating_point or kind.is_complex or kind is torch.bool) and bool(
        tensor.numel()
    )


def is_rising(old: torch.Tensor, axis: int = -1) -> bool:
    """Return True if each row is sorted, over two steps or more: one step may rise by chance.

    So may two of whole numbers, as the lengths 1, 3 and 3: these count from 0, or if none are equal.
    """
    import torch

    if old.dim() == 0 or old.dtype is torch.bool or old.dtype.is_complex or not old.numel():
        return False
    if old.shape[axis] > 2 and old.dim() > 1:  # a look at the first row usually decides
        row = old.movedim(axis, -1)[(0,) * (old.dim() - 1)]
        if bool((_signed(row).diff() < 0).any()):
            return False
    known = _signed(old)
    steps = known.diff(dim=axis)
    if steps.numel() < 2 or bool((steps < 0).any()):
        return False
    few = steps.numel() == 2 and is_whole(old)
    return not few or bool((steps > 0).all()) or bool((known.narrow(axis, 0, 1) == 0).all())


def are_two_ends(old: torch.Tensor) -> bool:
    """Return True if two whole numbers are the ends of two parts: 0, and more.

    No two numbers of another kind are as likely to look like that.
    """
    if not is_whole(old) or old.dim() != 1 or len(old) != 2:
        return False
    first, second = old.tolist()
    return first == 0 and second > 0


def in_order(new: torch.Tensor, axis: int = -1) -> torch.Tensor:
    return _signed(new).sort(axis).values.to(new.dtype)


def _signed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers in a dtype in which all of them can be compared and subtracted."""
    return tensor.double() if tensor.dtype.is_floating_point else tensor.long()


def finite_part(old: torch.Tensor) -> torch.Tensor:
    """Return the finite elements: the tensor itself if all are."""
    return old if all(map(math.isfinite, ends(old))) else old[old.isfinite()]


def ends(tensor: torch.Tensor) -> tuple[float, float]:
    """Return the least and the largest element; NaN if one is."""
    low, high = tensor.aminmax()
    return low.item(), high.item()


def first_few(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the first few elements, and then all: a look at a few usually decides."""
    yield tensor.reshape(-1)[:8]
    yield tensor
