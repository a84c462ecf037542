"""Numbers of rounds that rise by another step in some rounds: `i // 4`, `i % 4`, `max(i - 3, 0)`.

A chunk of a mask begins at every fourth row, a window at none of the first ones. Python computes
such numbers from the counter, so they are recorded as constants. The recorded rounds show the rule:
each number stays for as many rounds, and the numbers may begin to rise later or stop earlier. The
proof has many times as many rounds, and checks the rule in all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from ...budget import BUDGET
from ...graph.op import Op
from ...ir.value import Value

LARGEST_EXACT_FLOAT = 2**24  # up to which floats have all whole numbers
NO_LOWER_LIMIT, NO_UPPER_LIMIT = -(2**62), 2**62  # stand for no limit


@dataclass(frozen=True)
class Stairs:
    """The numbers begin + turn * slope + (turn + shift) // width * step, from `low` to `high`."""

    begin: torch.Tensor
    slope: torch.Tensor
    step: torch.Tensor
    width: torch.Tensor
    shift: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    @property
    def key(self) -> str:
        parts = (self.begin, self.slope, self.step, self.width, self.shift, self.low, self.high)
        return str([part.tolist() for part in parts])

    def at(self, op: Op, turn: Value) -> Value:
        """Compute the numbers of a round, which a scalar counts from 0."""
        made = turn
        if bool(self.shift.any()):
            made = op.Add(made, self._constant(op, self.shift))
        if bool((self.width != 1).any()):
            made = op.Div(made, self._constant(op, self.width))  # never of a negative number
        made = op.Add(op.Mul(made, self._constant(op, self.step)), self._constant(op, self.begin))
        if bool(self.slope.any()):
            made = op.Add(made, op.Mul(turn, self._constant(op, self.slope)))
        if bool((self.low != NO_LOWER_LIMIT).any()):
            made = op.Max(made, self._constant(op, self.low))
        if bool((self.high != NO_UPPER_LIMIT).any()):
            made = op.Min(made, self._constant(op, self.high))
        return made

    @staticmethod
    def _constant(op: Op, numbers: torch.Tensor) -> Value:
        return op.constant(numbers.tolist(), torch.int64)


def climbed(rounds: list[torch.Tensor]) -> Stairs | None:
    """Return the stairs that the numbers of these rounds follow; None if there are none."""
    each = torch.stack(rounds).reshape(len(rounds), -1)
    if each.is_floating_point() and not torch.equal(
        each, each.round().clamp(-LARGEST_EXACT_FLOAT, LARGEST_EXACT_FLOAT)
    ):
        return None
    each = each.long()
    found = [_rule(each[:, place].tolist()) for place in range(each.shape[1])]
    rules = [rule for rule in found if rule is not None]
    if len(rules) < len(found):
        return None
    shape = rounds[0].shape
    return Stairs(*(torch.tensor(part, dtype=torch.int64).reshape(shape) for part in zip(*rules)))


def _rule(numbers: list[int]) -> tuple[int, ...] | None:
    rises = [b - a for a, b in zip(numbers, numbers[1:])]
    usual = Counter(rises).most_common(1)[0][0]
    found = (_beside(numbers, rises, slope) for slope in dict.fromkeys((0, usual)))
    return next((rule for rule in found if rule is not None), None)


def _beside(numbers: list[int], rises: list[int], slope: int) -> tuple[int, ...] | None:
    """Return the rule of rises that differ from the slope in some rounds; None if there is none."""
    at = [turn for turn, rise in enumerate(rises, 1) if rise != slope]
    if not at:
        return numbers[0], slope, 0, 1, 0, NO_LOWER_LIMIT, NO_UPPER_LIMIT
    step, first, last = rises[at[0] - 1] - slope, at[0], at[-1]
    width = at[1] - first if len(at) > 1 else 0
    if len(at) < BUDGET.rounds.stair_steps + (width == 1) or any(
        rises[turn - 1] - slope != step for turn in at
    ):
        return None
    if at != [*range(first, last + 1, width)]:
        return None
    shift = -first % width
    begin = numbers[first] - first * slope - (first + shift) // width * step
    ends = [
        numbers[0] if first > width else None,  # the rise begins later
        numbers[-1] if len(numbers) - last > width else None,  # the rise has ended
    ]
    if slope and ends != [None, None]:
        return None
    low, high = ends if step > 0 else reversed(ends)
    return (
        begin, slope, step, width, shift, NO_LOWER_LIMIT if low is None else low,
        NO_UPPER_LIMIT if high is None else high,
    )  # fmt: skip
