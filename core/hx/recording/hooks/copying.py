"""`copy.copy` of a tensor: another object for the same memory, which PyTorch makes by its address."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from ..recording import Recording


def hooks(recording: Recording) -> dict[Any, Callable]:
    """The handlers of plain Python functions, by function."""

    def copied(original, args, kwargs):
        if (
            not recording.running.busy
            and not kwargs
            and len(args) == 1
            and type(args[0]) is torch.Tensor
        ):
            return args[0].view_as(args[0])
        return original(*args, **kwargs)

    return {copy.copy: copied}
