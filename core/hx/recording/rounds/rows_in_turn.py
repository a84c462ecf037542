"""Rows of a tensor that a model goes over, each taken when its round begins.

PyTorch takes all rows first. A loop that a value ends before the last row reads only those of the
rounds that have run, so its rounds can take each row by their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...ir.sizes import dims, size_lists
from ..recording import Recording


def hooks(recording: Recording) -> dict[Any, Callable]:
    """Return the handler of `for row in x`, in a recording of a loop that sizes and values end."""

    def rows(original: Callable, args: tuple, kwargs: dict) -> Any:
        (x,) = args
        many = x.shape[0] if x.dim() and not recording.running.busy else 0
        if not dims.is_dynamic(many):
            return original(*args, **kwargs)
        return (x[at] for at in size_lists.counted(many))

    until = recording.questions.until
    return {torch.Tensor.__iter__: rows} if until is not None and until.sized else {}
