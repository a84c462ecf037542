"""Numbers of rounds that rise otherwise in some of them: `i // 4`, `i % 4`, `max(i - 3, 0)`.

A chunk of a mask begins at every fourth row, a window at none of the first ones. Python computes such
numbers from what counts the rounds, and they are plain ones: what rule they follow shows in the rounds
that were recorded. They stay for as many rounds each, and it may be that they do not begin to rise at
once, or do not go on. That they do so in other rounds as well is left to the proof, which has many
times as many.
"""

from __future__ import annotations

from builtins import len, range  # their own: `world` hooks those of the model
from collections import Counter
from dataclasses import dataclass

import torch

from ...graph.op import Op
from ...tensors.values import Value

STEPS = 2  # seen, with as many rounds between them; of those that come in every round, one more
EXACT = 2**24  # up to which every float has the whole numbers
LEAST, MOST = -(2**62), 2**62  # where there is no end


@dataclass(frozen=True)
class Stairs:
    """begin + turn * slope + (turn + shift) // width * step, from `low` to `high`, of each number."""

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
        """The numbers in the round that a scalar counts, from 0."""
        made = turn
        if bool(self.shift.any()):
            made = op.Add(made, self._constant(op, self.shift))
        if bool((self.width != 1).any()):
            made = op.Div(made, self._constant(op, self.width))  # of what is 0 or more
        made = op.Add(op.Mul(made, self._constant(op, self.step)), self._constant(op, self.begin))
        if bool(self.slope.any()):
            made = op.Add(made, op.Mul(turn, self._constant(op, self.slope)))
        if bool((self.low != LEAST).any()):
            made = op.Max(made, self._constant(op, self.low))
        if bool((self.high != MOST).any()):
            made = op.Min(made, self._constant(op, self.high))
        return made

    @staticmethod
    def _constant(op: Op, numbers: torch.Tensor) -> Value:
        return op.constant(numbers.tolist(), torch.int64)


def climbed(rounds: list[torch.Tensor]) -> Stairs | None:
    """What the numbers of these rounds follow; None where it is nothing of the kind, or no number."""
    each = torch.stack(rounds).reshape(len(rounds), -1)
    if each.is_floating_point() and not torch.equal(each, each.round().clamp(-EXACT, EXACT)):
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
    """By how much they rise otherwise than by the slope, and where."""
    at = [turn for turn, rise in enumerate(rises, 1) if rise != slope]
    if not at:
        return numbers[0], slope, 0, 1, 0, LEAST, MOST
    step, first, last = rises[at[0] - 1] - slope, at[0], at[-1]
    width = at[1] - first if len(at) > 1 else 0
    if len(at) < STEPS + (width == 1) or any(rises[turn - 1] - slope != step for turn in at):
        return None
    if at != [*range(first, last + 1, width)]:
        return None
    shift = -first % width
    begin = numbers[first] - first * slope - (first + shift) // width * step
    ends = [
        numbers[0] if first > width else None,  # it has not begun to rise
        numbers[-1] if len(numbers) - last > width else None,  # it no longer rises
    ]
    if slope and ends != [None, None]:
        return None
    low, high = ends if step > 0 else reversed(ends)
    return (
        begin, slope, step, width, shift, LEAST if low is None else low,
        MOST if high is None else high,
    )  # fmt: skip
