"""Short descriptions of tensors: `float32[1,512,7,7]`."""

from __future__ import annotations

from typing import Any

import torch

from .. import dtypes
from ..packs import nesting
from ..text import first_few


def dtype_name(tensor: torch.Tensor) -> str:
    return dtypes.name(tensor.dtype)


def described(thing: Any, most: int = 4) -> str:
    """Describe what a call got or returned, one tensor after the other."""
    told = [_leaf(leaf) for _, leaf in nesting.leaves(thing)]
    return first_few(told, most) or "nothing"


def _leaf(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{dtype_name(leaf)}[{','.join(map(str, leaf.shape))}]"
    return type(leaf).__name__ if leaf is not None else "None"
