"""Numbers of rounds that are multiplied by a factor: `0.9 ** t`, `d *= 0.99`, `(-1) ** t`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...budget import BUDGET
from ...graph.op import Op
from ...ir.value import Value


def as_written(number: float, digits: int = BUDGET.formulas.factor_digits) -> float:
    """Round a number as people write it in code: if it was written so, it becomes more exact."""
    return float(f"{number:.{digits}g}")


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
    written = [*map(as_written, size.reshape(-1).tolist())]
    for factor in (torch.tensor(written, dtype=torch.float64).reshape(size.shape), size):
        found = Powers(first, sign * factor)
        counted = torch.arange(turns + 1).reshape(-1, *[1] * first.dim())
        off = (found.begin * found.step**counted - each).abs()
        if bool((off <= near * each.abs()).all()):
            return found
    return None
