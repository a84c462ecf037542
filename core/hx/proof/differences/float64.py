"""Runs of the model in float64, which show how much its own rounding costs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ...recording.runner import ModelRunner
from ...recording.runs.known_results import Returned
from ...torchworld.modes.float64_mode import Float64Mode
from ...torchworld.modes.quantized_kernels import QuantizedKernels
from ...torchworld.modes.run_mode import RunMode

if TYPE_CHECKING:
    from ..file_proof import Case


@dataclass(frozen=True)
class Float64Run:
    """The model's outputs in float64, where they are known.

    `apart` names its quantized kernels that give other numbers than their float64 versions.
    """

    outputs: list[torch.Tensor | None]
    apart: tuple[str, ...] = ()


class InFloat64:
    """Callable that runs the model in float64: `exact(case)` returns its outputs.

    There are none for models of quantized tensors, unless `quantized` is True: what a kernel rounds
    to the next step of 255 excuses no difference, and only tells which inputs it computes right.
    """

    def __init__(self, runner: ModelRunner, quantized: bool = False) -> None:
        self._runner = replace(runner)  # a run that does not end in float64 says nothing of others
        self._quantized = quantized

    def __call__(self, case: Case) -> list[torch.Tensor | None]:
        return self.run(case).outputs

    def run(self, case: Case) -> Float64Run:
        if self._runner.trace.effects.draws:
            return Float64Run([])  # it draws other numbers in float64
        runs, key = self._runner.recorder.known, self._runner.key(dict(case.feeds))
        if key is not None:
            key = (*key[:2], key[2] + (b"quantized" if self._quantized else b"float64"))
        if isinstance(found := runs.find(key), Returned):  # of the proof of another file
            return Float64Run(found.results)
        kernels = QuantizedKernels() if self._quantized else None
        mode = Float64Mode(kernels)
        try:
            ran = self._runner.run(dict(case.feeds), tap=RunMode(mode))
        finally:
            mode.forget()
        if not isinstance(ran, Returned):
            # A kernel may lack float64. Nothing is known then: results beyond tolerance remain
            # wrong.
            return Float64Run([])
        outputs = [
            x.cpu() if isinstance(x, torch.Tensor) and _is_wide(x) else None for x in ran.results
        ]
        if kernels is None or not kernels.apart:
            runs.add(key, Returned(outputs))
        return Float64Run(outputs, () if kernels is None else tuple(kernels.apart))


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)
