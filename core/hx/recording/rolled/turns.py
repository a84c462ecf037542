"""Numbers of rounds that come round: `TABLE[i % 3]`, `round(i / 2)`, `math.sin(i * math.pi / 2)`."""

from __future__ import annotations

from builtins import len, range  # their own: `world` hooks those of the model
from dataclasses import dataclass

import torch

from ...graph.op import Op
from ...tensors.values import Value


@dataclass(frozen=True)
class Turns:
    """table[turn % period] + turn // period * step, of each number."""

    table: torch.Tensor
    step: torch.Tensor

    @property
    def key(self) -> str:
        return str([self.table.tolist(), self.step.tolist()])

    def at(self, op: Op, turn: Value) -> Value:
        """The numbers in the round that a scalar counts, from 0."""
        period, wide = op.constant(len(self.table), torch.int64), self.table.dtype
        there = op.Mod(turn, period)
        made = op.Gather(op.constant(self.table.tolist(), wide), there, axis=0)
        if not bool(self.step.any()):
            return made
        gone = op.cast(op.Div(op.Sub(turn, there), period), wide)
        return op.Add(made, op.Mul(gone, op.constant(self.step.tolist(), wide)))


def turned(rounds: list[torch.Tensor], near: float) -> Turns | None:
    """What the numbers of these rounds begin anew with, but for so much of each; None for others.

    Each is seen twice, and one of them once more.
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
