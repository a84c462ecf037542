"""Short descriptions of tensors: `float32[1,512,7,7]`."""

from __future__ import annotations

from typing import Any

import torch

from ..packs import nesting
from ..text import first_few, tensor_text


def described(thing: Any, most: int = 4) -> str:
    """Describe what a call got or returned, one tensor after the other."""
    told = [_leaf(leaf) for _, leaf in nesting.leaves(thing)]
    return first_few(told, most) or "nothing"


def _leaf(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return tensor_text(leaf.dtype, leaf.shape)
    return type(leaf).__name__ if leaf is not None else "None"
