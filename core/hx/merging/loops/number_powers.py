"""Numbers of rounds that are multiplied by a factor: `0.9 ** t`, `d *= 0.99`, `(-1) ** t`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...graph.op import Op
from ...ir.value import Value

# Digits of a factor, as usually written in code: rounded so, it is more exact.
FACTOR_DIGITS = 6


@dataclass(frozen=True)
class Powers:
    """The numbers begin * step ** turn."""

    begin: torch.Tensor
    step: torch.Tensor

    @property
    def key(self) -> str:
        return str([self.begin.tolist(), self.step.tolist()])

    def at(self, op: Op, turn: Value) -> Value:
        """Compute the numbers of a round, which a scalar counts from 0."""
        factor = op.constant(self.step.tolist(), torch.float64)
        power = op.Pow(factor, op.cast(turn, torch.float64))
        return op.Mul(power, op.constant(self.begin.tolist(), torch.float64))


def multiplied(rounds: list[torch.Tensor], near: float) -> Powers | None:
    """Return the powers that the numbers of these rounds are, within a tolerance, or None."""
    each = torch.stack(rounds).double()
    first, last, turns = each[0], each[-1], len(rounds) - 1
    if not each.isfinite().all() or not each.all():
        return None
    size = (last / first).abs() ** (1 / turns)
    sign = (each[1] / first).sign()
    written = [float(f"{x:.{FACTOR_DIGITS}g}") for x in size.reshape(-1).tolist()]
    for factor in (torch.tensor(written, dtype=torch.float64).reshape(size.shape), size):
        found = Powers(first, sign * factor)
        counted = torch.arange(turns + 1).reshape(-1, *[1] * first.dim())
        off = (found.begin * found.step**counted - each).abs()
        if bool((off <= near * each.abs()).all()):
            return found
    return None
