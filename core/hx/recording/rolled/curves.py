"""Numbers of rounds that follow a function of what counts them: `(i + 1) ** 0.5`, `math.log(i + 1)`,
`1 / (i + 2)`, `i * i`, `1 - 0.9 ** i`, `math.sin(0.3 * i)`.

Python computes them, and they are plain ones. Which function of a few it was shows in the rounds that
were recorded, more of which there are than it has coefficients; that it was this one in all rounds is
left to the proof, which has many times as many.
"""

from __future__ import annotations

import math
from builtins import len, range  # their own: `world` hooks those of the model
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch

from ...graph.op import Op
from ...tensors.values import Value
from .powers import DIGITS

MORE = 2  # rounds than a curve has coefficients
SHIFTS = [k / 6 for k in range(6 * 8 + 1)]  # of what counts the rounds, where a curve is not at 0
POWERS = (-1.0, 0.5, -0.5, -2.0, 1.5)
WHOLE_POWERS = (2.0, 3.0)  # which numbers below 0 have as well
ROUGH = 3  # digits that a power is written with, mostly
PARTS = 48  # of a half turn


@dataclass(frozen=True)
class Curve:
    """offset + scale * name(factor * turn + shift), of one number, which has this shape."""

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
        """The number in the round that a scalar counts, from 0."""

        def number(value: float) -> Value:
            return op.constant(value, torch.float64)

        made = op.cast(turn, torch.float64)
        if self.name == "Exp":  # of a base: rounding in an exponent would grow with it
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
    """The curve that the numbers of these rounds are on, but for so much of the largest; None for
    others, and for several numbers in one."""
    if rounds[0].numel() != 1 or len(rounds) < 3 + MORE:
        return None
    each = torch.stack(rounds).reshape(-1).double()
    if not each.isfinite().all():
        return None
    turns = torch.arange(len(rounds), dtype=torch.float64)
    shape = tuple(rounds[0].shape)
    for name, factor, shift, power in _candidates(each, turns):
        counted = factor * turns + shift
        if name == "Exp":
            basis = factor**turns
        else:
            basis = counted**power if name == "Pow" else getattr(torch, name.lower())(counted)
        if not basis.isfinite().all():
            continue
        rows = torch.stack([basis, torch.ones_like(basis)], 1)
        solved = torch.linalg.lstsq(rows, each[:, None]).solution.reshape(-1).tolist()
        written = [float(f"{x:.{DIGITS}g}") for x in solved]
        written[1] = 0.0 if abs(written[1]) <= near * float(each.abs().max()) else written[1]
        for scale, offset in (written, solved):
            off = (scale * basis + offset - each).abs().max()
            if float(off) <= near * float(each.abs().max()):
                return Curve(name, shape, factor, shift, scale, offset, power)
    return None


Candidate = tuple[str, float, float, float]


def _candidates(each: torch.Tensor, turns: torch.Tensor) -> Iterator[Candidate]:
    """Functions, each with what goes into it: a factor of what counts, a shift, and a power."""
    for power in POWERS:
        yield from (("Pow", 1.0, shift, power) for shift in SHIFTS if shift or power > 0)
    for power in WHOLE_POWERS:
        yield from (("Pow", 1.0, sign * shift, power) for shift in SHIFTS for sign in (1, -1))
    yield from (("Log", 1.0, shift, 1.0) for shift in SHIFTS if shift)
    yield from _of_any_power(each, turns)
    yield from _of_a_base(each)
    yield from _waves(each)


def _of_any_power(each: torch.Tensor, turns: torch.Tensor) -> Iterator[Candidate]:
    if not bool((each > 0).all()) and not bool((each < 0).all()):
        return
    logs = each.abs().log()
    for shift in SHIFTS:
        if shift:
            counted = (turns + shift).log()
            middle = counted - counted.mean()
            power = float((middle * logs).sum() / (middle * middle).sum())
            yield "Pow", 1.0, shift, float(f"{power:.{ROUGH}g}")


def _of_a_base(each: torch.Tensor) -> Iterator[Candidate]:
    rises = each.diff()
    if not rises.all():
        return
    base = float((rises[-1] / rises[0]).abs() ** (1 / (len(rises) - 1)))
    base = math.copysign(base, float(rises[1] / rises[0]))
    yield from (("Exp", b, 0.0, 1.0) for b in (float(f"{base:.{DIGITS}g}"), base))


def _waves(each: torch.Tensor) -> Iterator[Candidate]:
    """Of a sum of sine and cosine, three in a row say how fast they turn."""
    middle = each[1:-1]
    beside = each[2:] + each[:-2]
    cosine = float((middle * beside).sum() / (2 * (middle * middle).sum() or 1))
    if not -1 < cosine < 1:
        return
    angle = math.acos(cosine)
    part = Fraction(angle / math.pi).limit_denominator(PARTS)
    for each_angle in (float(f"{angle:.{DIGITS}g}"), float(part) * math.pi, angle):
        # scale * sin(angle * turn + shift): of the first two numbers.
        sine = math.sin(each_angle)
        if sine:
            along = (float(each[1]) - float(each[0]) * math.cos(each_angle)) / sine
            yield "Sin", each_angle, math.atan2(float(each[0]), along), 1.0
