"""Lengths in the form that a model may insist on: the largest is a size, the longest come first.

Random lengths usually have neither property. A model that packs sequences refuses unsorted lengths,
and one that masks what was padded to the longest refuses lengths that are all too short.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .number_properties import is_whole

Inputs = Mapping[str, torch.Tensor]


def lengths_as_recorded(recorded: Inputs, tensors: Inputs) -> dict[str, torch.Tensor]:
    """Return the inputs that may be lengths, as long, and in the order, as recorded."""
    return {
        name: _lengths(old, tensors[name], _longest(name, recorded, tensors))
        for name, old in recorded.items()
        if name in tensors and _may_be_lengths(old) and tensors[name].numel()
    }


def _may_be_lengths(old: torch.Tensor) -> bool:
    if not is_whole(old) or old.dim() != 1:
        return False
    lengths = old.long()
    return bool(lengths.min() >= 0 and lengths.max() > 1)


def _longest(name: str, recorded: Inputs, tensors: Inputs) -> int | None:
    """Return the new size of an axis that was as long as the largest length; None without one."""
    largest = int(recorded[name].long().max())
    found = [
        new
        for key, old in recorded.items()
        if key != name and key in tensors
        for was, new in zip(old.shape, tensors[key].shape)
        if was == largest
    ]
    return min(found, default=None)


def _lengths(old: torch.Tensor, new: torch.Tensor, longest: int | None) -> torch.Tensor:
    made = new.long()
    if longest is not None:
        largest = int(old.long().max())
        made = (made * longest + largest - 1).div(largest, rounding_mode="floor")
        made = made.clamp(max=longest)
        made[made.argmax()] = longest
    if bool((old.long().diff() <= 0).all()):
        made = made.sort(descending=True).values
    return made.to(new.dtype)
