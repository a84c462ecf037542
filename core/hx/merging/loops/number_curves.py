"""Numbers of rounds that follow a function of the counter.

    (i + 1) ** 0.5, math.log(i + 1), 1 / (i + 2), i * i, 1 - 0.9 ** i, math.sin(0.3 * i)

Python computes them, so they are recorded as constants. The recorded rounds, which are more than a
function has coefficients, show which of a few functions it is. The proof has many times as many
rounds, and checks that the function holds in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch

from ...budget import BUDGET
from ...graph.op import Op
from ...ir.value import Value
from .number_powers import as_written

SHIFTS = [k / 6 for k in range(6 * 8 + 1)]  # of the counter, for curves that do not begin at 0
POWERS = (-1.0, 0.5, -0.5, -2.0, 1.5)
WHOLE_POWERS = (2.0, 3.0)  # defined for negative numbers, too


@dataclass(frozen=True)
class Curve:
    """The curve offset + scale * name(factor * turn + shift), of one number with this shape."""

    name: str
    shape: tuple[int, ...]
    factor: float
    shift: float
    scale: float
    offset: float
    power: float = 1.0

    @property
    def key(self) -> str:
        return repr(self)

    @property
    def step(self) -> torch.Tensor:
        return torch.tensor([self.factor, self.scale], dtype=torch.float64)

    def at(self, op: Op, turn: Value) -> Value:
        """Compute the number of a round, which a scalar counts from 0."""

        def number(value: float) -> Value:
            return op.constant(value, torch.float64)

        made = op.cast(turn, torch.float64)
        if self.name == "Exp":  # as a power of a base, because rounding errors in an exponent grow
            made = op.Pow(number(self.factor), made)
        else:
            made = op.Add(op.Mul(made, number(self.factor)), number(self.shift))
            if self.name == "Pow":
                made = op.Pow(made, number(self.power))
            else:
                made = getattr(op, self.name)(made)
        made = op.Add(op.Mul(made, number(self.scale)), number(self.offset))
        return op.Reshape(made, [*self.shape]) if self.shape else made


def bent(rounds: list[torch.Tensor], near: float) -> Curve | None:
    """Return the curve that the numbers of these rounds are on, within a tolerance; None if there
    is none, or if a round has several numbers.
    """
    if rounds[0].numel() != 1 or len(rounds) < 3 + BUDGET.rounds.beyond_coefficients:
        return None
    each = torch.stack(rounds).reshape(-1).double()
    if not each.isfinite().all():
        return None
    far = near * float(each.abs().max())
    for family in _families(each, torch.arange(len(rounds), dtype=torch.float64)):
        scale, offset = _line(family.numbers, each)
        off = (scale[:, None] * family.numbers + offset[:, None] - each).abs().amax(1)
        for place in (off <= far).nonzero().reshape(-1).tolist():
            found = float(scale[place]), float(offset[place])
            written = [as_written(x) if abs(x) > far else 0.0 for x in found]
            for a, b in (written, found):
                if float((a * family.numbers[place] + b - each).abs().max()) <= far:
                    inside = family.factor[place], family.shift[place], a, b, family.power[place]
                    return Curve(family.name, tuple(rounds[0].shape), *inside)
    return None


@dataclass(frozen=True)
class _Family:
    """Functions of one name: the parameters of each, and its numbers in the rounds as a row."""

    name: str
    numbers: torch.Tensor
    factor: list[float]
    shift: list[float]
    power: list[float]


def _line(rows: torch.Tensor, each: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale and offset that bring each row nearest to the numbers."""
    middle = rows - rows.mean(1, keepdim=True)
    scale = (middle * (each - each.mean())).sum(1) / (middle * middle).sum(1)
    return scale, each.mean() - scale * rows.mean(1)


def _families(each: torch.Tensor, turns: torch.Tensor) -> Iterator[_Family]:
    shifts = torch.tensor(SHIFTS, dtype=torch.float64)
    for power in POWERS:
        yield _shifted("Pow", shifts if power > 0 else shifts[1:], turns, power)
    for power in WHOLE_POWERS:
        yield _shifted("Pow", torch.cat([shifts, -shifts[1:]]), turns, power)
    yield _shifted("Log", shifts[1:], turns)
    if bool((each > 0).all()) or bool((each < 0).all()):
        counted = (turns + shifts[1:, None]).log()
        slopes, _ = _line(counted, each.abs().log())
        found = [as_written(x, BUDGET.formulas.power_digits) for x in slopes.tolist()]
        powers = torch.tensor(found, dtype=torch.float64)
        yield _shifted("Pow", shifts[1:], turns, powers[:, None])
    rises = each.diff()
    if bool(rises.all()):
        base = float((rises[-1] / rises[0]).abs() ** (1 / (len(rises) - 1)))
        base = math.copysign(base, float(rises[1] / rises[0]))
        bases = [as_written(base), base]
        powers = torch.tensor(bases, dtype=torch.float64)[:, None] ** turns
        yield _Family("Exp", powers, bases, [0.0, 0.0], [1.0, 1.0])
    yield from _waves(each, turns)


def _shifted(
    name: str, shifts: torch.Tensor, turns: torch.Tensor, power: float | torch.Tensor = 1.0
) -> _Family:
    counted, many = turns + shifts[:, None], len(shifts)
    numbers = counted.log() if name == "Log" else counted**power
    powers = [power] * many if isinstance(power, float) else power.reshape(-1).tolist()
    return _Family(name, numbers, [1.0] * many, shifts.tolist(), powers)


def _waves(each: torch.Tensor, turns: torch.Tensor) -> Iterator[_Family]:
    """Yield sine waves: three numbers in a row give the angle between two rounds."""
    middle = each[1:-1]
    beside = each[2:] + each[:-2]
    cosine = float((middle * beside).sum() / (2 * (middle * middle).sum() or 1))
    if not -1 < cosine < 1:
        return
    angle = math.acos(cosine)
    part = Fraction(angle / math.pi).limit_denominator(BUDGET.formulas.angle_denominator)
    for each_angle in (as_written(angle), float(part) * math.pi, angle):
        sine = math.sin(each_angle)
        if sine:  # scale * sin(angle * turn + shift): from the first two numbers
            along = (float(each[1]) - float(each[0]) * math.cos(each_angle)) / sine
            shift = math.atan2(float(each[0]), along)
            numbers = (each_angle * turns + shift).sin()[None]
            yield _Family("Sin", numbers, [each_angle], [shift], [1.0])
