"""Runs of the model in float64, which show how much its own rounding costs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ..recording.runner import ModelRunner, Returned
from ..torchworld.float64_mode import Float64Mode
from ..torchworld.run_mode import RunMode

if TYPE_CHECKING:
    from .verify import Case


class InFloat64:
    """Callable that runs the model in float64: `exact(case)` returns its outputs."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = replace(runner)  # a run that does not end in float64 says nothing of others

    def __call__(self, case: Case) -> list[torch.Tensor | None]:
        if self._runner.trace.effects.drew:
            return []  # it draws other numbers in float64
        ran = self._runner.run(dict(case.feeds), tap=RunMode(Float64Mode()))
        if not isinstance(ran, Returned):
            # A kernel may lack float64. Nothing is known then: results beyond tolerance remain
            # wrong.
            return []
        return [
            x.cpu() if isinstance(x, torch.Tensor) and _is_wide(x) else None for x in ran.results
        ]


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)
