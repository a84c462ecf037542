"""Numbers that cycle over the rounds, plus a step per cycle: `TABLE[i % 3]`, `round(i / 2)`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...graph.op import Op
from ...ir.value import Value


@dataclass(frozen=True)
class Turns:
    """The numbers table[turn % period] + turn // period * step."""

    table: torch.Tensor
    step: torch.Tensor

    @property
    def key(self) -> str:
        return str([self.table.tolist(), self.step.tolist()])

    def at(self, op: Op, turn: Value) -> Value:
        """Compute the numbers of a round, which a scalar counts from 0."""
        period, wide = op.constant(len(self.table), torch.int64), self.table.dtype
        there = op.Mod(turn, period)
        made = op.Gather(op.constant(self.table.tolist(), wide), there, axis=0)
        if not bool(self.step.any()):
            return made
        gone = op.cast(op.Div(op.Sub(turn, there), period), wide)
        return op.Add(made, op.Mul(gone, op.constant(self.step.tolist(), wide)))


def turned(rounds: list[torch.Tensor], near: float) -> Turns | None:
    """Return the cycle that the numbers of these rounds follow, within a tolerance, or None.

    A cycle must be seen twice, and one number of it once more.
    """
    each = torch.stack(rounds)
    if not each.isfinite().all():
        return None
    scale = each.abs().amax(0)
    for period in range(2, (len(rounds) - 1) // 2 + 1):
        steps = each[period:] - each[:-period]
        if bool(((steps - steps[0]).abs() <= near * scale).all()):
            return Turns(each[:period], steps[0])
    return None
