"""Numbers of rounds that a factor makes of those before: `0.9 ** t`, `d *= 0.99`, `(-1) ** t`."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from dataclasses import dataclass

import torch

from ...graph.op import Op
from ...tensors.values import Value

# That a factor is written with, mostly: what it was is known better than from its powers.
DIGITS = 6


@dataclass(frozen=True)
class Powers:
    """begin * step ** turn, of each number."""

    begin: torch.Tensor
    step: torch.Tensor

    @property
    def key(self) -> str:
        return str([self.begin.tolist(), self.step.tolist()])

    def at(self, op: Op, turn: Value) -> Value:
        """The numbers in the round that a scalar counts, from 0."""
        factor = op.constant(self.step.tolist(), torch.float64)
        power = op.Pow(factor, op.cast(turn, torch.float64))
        return op.Mul(power, op.constant(self.begin.tolist(), torch.float64))


def multiplied(rounds: list[torch.Tensor], near: float) -> Powers | None:
    """The powers that the numbers of these rounds are, but for so much of each; None for others."""
    each = torch.stack(rounds).double()
    first, last, turns = each[0], each[-1], len(rounds) - 1
    if not each.isfinite().all() or not each.all():
        return None
    size = (last / first).abs() ** (1 / turns)
    sign = (each[1] / first).sign()
    written = [float(f"{x:.{DIGITS}g}") for x in size.reshape(-1).tolist()]
    for factor in (torch.tensor(written, dtype=torch.float64).reshape(size.shape), size):
        found = Powers(first, sign * factor)
        counted = torch.arange(turns + 1).reshape(-1, *[1] * first.dim())
        off = (found.begin * found.step**counted - each).abs()
        if bool((off <= near * each.abs()).all()):
            return found
    return None
