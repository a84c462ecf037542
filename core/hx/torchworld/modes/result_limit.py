"""A limit on the results of a run: values that hx made up may lead to any amount of work.

Regions of an image are pooled from as many points as they are large, for example.
"""

from __future__ import annotations

from typing import Any

import torch

from .line_limit import RunGivenUp
from .operator_modes import Seeing


class TooManyResults(RunGivenUp):
    """The operators of a run returned more bytes than they may."""


class ResultLimit(Seeing):
    """`with RunMode(ResultLimit(limit)):` raises TooManyResults once more bytes were returned."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self._left = limit

    def see(self, result: Any) -> None:
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                self._left -= tensor.untyped_storage().nbytes()
        if self._left < 0:
            raise TooManyResults
