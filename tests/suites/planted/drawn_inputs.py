"""Inputs of the models, drawn from a description: values and sizes that the proof did not choose."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

Sizes = Mapping[str, int]
Dims = tuple[int | str, ...]


@dataclass(frozen=True)
class Size:
    """A size that may change: the recorded one, and which others the model takes."""

    recorded: int
    low: int = 1
    high: int = 2000
    step: int = 1

    def near(self, n: int) -> int:
        """Return an allowed size near a number."""
        n = max(self.low, min(n, self.high))
        return max(n // self.step * self.step, -(-self.low // self.step) * self.step)


@dataclass(frozen=True)
class Input:
    """A description of an input.

    `kind` is floats, uniform (from 0 to 1), ids (below `high`), whole (between `ends`), columns
    (whole numbers with ends of their own in each column), mask, padding (rows that begin with ones),
    lengths (from 1 to the size named `of`), rising, or boxes (x1, y1, x2, y2).
    """

    kind: str
    dims: Dims
    high: int = 0
    of: str = ""
    dtype: torch.dtype = torch.float32
    ends: tuple[tuple[int, int], ...] = ()


def floats(*dims: int | str, dtype: torch.dtype = torch.float32) -> Input:
    return Input("floats", dims, dtype=dtype)


def uniform(*dims: int | str) -> Input:
    return Input("uniform", dims)


def ids(*dims: int | str, high: int) -> Input:
    return Input("ids", dims, high, dtype=torch.int64)


def whole(*dims: int | str, ends: tuple[int, int], dtype: torch.dtype = torch.int64) -> Input:
    return Input("whole", dims, dtype=dtype, ends=(ends,))


def columns(*dims: int | str, ends: tuple[tuple[int, int], ...]) -> Input:
    """Whole numbers of which each column has ends of its own."""
    return Input("columns", (*dims, len(ends)), dtype=torch.int64, ends=ends)


def mask(*dims: int | str) -> Input:
    return Input("mask", dims, dtype=torch.bool)


def padding(*dims: int | str, dtype: torch.dtype = torch.bool) -> Input:
    return Input("padding", dims, dtype=dtype)


def lengths(*dims: int | str, of: str) -> Input:
    return Input("lengths", dims, of=of, dtype=torch.int64)


def places(*dims: int | str, of: str) -> Input:
    """Places along an axis whose size has a name."""
    return Input("ids", dims, of=of, dtype=torch.int64)


def boxes(*dims: int | str) -> Input:
    return Input("boxes", (*dims, 4))


def rising(*dims: int | str) -> Input:
    return Input("rising", dims)


# How values of floats are drawn: as they come, and changed to reach beyond those.
VALUES = ("normal", "small", "large", "huge", "whole", "positive", "negative", "equal", "zero",
          "spike", "rows")  # fmt: skip


def _floats(shape: list[int], values: str, rng: torch.Generator) -> torch.Tensor:
    x = torch.randn(shape, generator=rng)
    if values in ("small", "large", "huge"):
        return x * {"small": 1e-2, "large": 30.0, "huge": 1000.0}[values]
    if values == "whole":
        return (x * 2).round()
    if values == "positive":
        return x.abs() * 3
    if values == "negative":
        return -x.abs() * 3
    if values == "equal":
        return torch.full(shape, 0.75)
    if values == "zero":
        return x * 0
    if values == "spike" and x.numel():
        at = int(torch.randint(x.numel(), (1,), generator=rng))
        x.view(-1)[at] = 100.0
    if values == "rows" and x.dim():  # each row at its own height
        steps = torch.linspace(-20, 20, shape[0]) if shape[0] > 1 else torch.tensor([20.0])
        return x + steps.reshape(-1, *[1] * (x.dim() - 1))
    return x


def _drawn(one: Input, sizes: Sizes, values: str, rng: torch.Generator) -> torch.Tensor:
    shape = [sizes[d] if isinstance(d, str) else d for d in one.dims]
    kind = one.kind
    if kind == "floats":
        return _floats(shape, values, rng).to(one.dtype)
    uni = torch.rand(shape, generator=rng)
    if kind == "uniform":
        ends = {"zero": 0.0, "equal": 1.0, "small": 1e-3}
        return uni * ends[values] if values == "small" else torch.full(shape, ends[values]) if (
            values in ends) else uni.round() if values == "whole" else uni  # fmt: skip
    if kind == "boxes":
        wide = {"small": 0.1, "large": 200.0, "huge": 3000.0}.get(values, 40.0)
        start, size = _pair(shape, wide, rng)
        made = torch.cat((start, start + size * (0 if values == "zero" else 1)), -1)
        return made.round() if values == "whole" else made
    if kind == "rising":
        return _floats(shape, values, rng).sort(-1).values
    if kind == "mask":
        share = {"zero": 0.0, "equal": 1.0, "small": 0.1, "large": 0.9}.get(values, 0.5)
        return (uni < share).to(one.dtype)
    if kind == "padding":
        n = shape[-1]
        length = torch.randint(1, n + 1, (*shape[:-1], 1), generator=rng)
        length = {"equal": torch.full_like(length, n), "small": torch.ones_like(length)}.get(
            values, length)  # fmt: skip
        return (torch.arange(n) < length).to(one.dtype)
    if kind in ("whole", "columns"):
        low, end = torch.tensor(one.ends if kind == "columns" else one.ends[0]).unbind(-1)
        if values in ("zero", "equal"):
            return (low if values == "zero" else end).expand(shape).clone().to(one.dtype)
        return (low + (uni.double() * (end - low + 1)).long()).to(one.dtype)
    high = sizes[one.of] if one.of else one.high
    if kind == "lengths":
        ends = {"equal": high, "zero": 1, "small": min(2, high)}
        drawn = torch.randint(1, high + 1, shape, generator=rng)
        return torch.full(shape, ends[values]) if values in ends else drawn
    if kind == "ids":
        ends = {"equal": high - 1, "zero": 0}
        drawn = torch.randint(high, shape, generator=rng)
        return torch.full(shape, ends[values]) if values in ends else drawn
    raise ValueError(kind)


def _pair(shape: list[int], wide: float, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    half = [*shape[:-1], 2]
    return tuple(torch.rand(half, generator=rng) * wide for _ in range(2))  # type: ignore[return-value]


def draw(
    inputs: Mapping[str, Input], sizes: Sizes, values: str, seed: int
) -> dict[str, torch.Tensor]:
    """Return inputs of these sizes, and with values of this kind."""
    rng = torch.Generator().manual_seed(seed)
    return {name: _drawn(one, sizes, values, rng) for name, one in inputs.items()}


FAR = (60, 260, 810, 1700)  # beyond each of the bounds of lost rows
NEAR = (1, 2, 3, 4, 7, 12, 16, 33)


def plans(name: str, sizes: Mapping[str, Size]) -> Iterator[tuple[dict[str, int], str]]:
    """Yield sizes and kinds of values: each kind at small sizes, and each size far from the rest."""
    rng = random.Random(zlib.crc32(name.encode()))
    recorded = {word: size.recorded for word, size in sizes.items()}
    for values in VALUES:
        yield recorded, values
    small = {word: size.near(2) for word, size in sizes.items()}
    for word, size in sizes.items():
        for n in dict.fromkeys(map(size.near, (*NEAR, *FAR))):
            if n != size.recorded:
                yield {**(small if n > max(NEAR) else recorded), word: n}, "normal"
    for turn in range(8 if len(sizes) > 1 else 3):
        drawn = {word: size.near(rng.choice(NEAR)) for word, size in sizes.items()}
        yield drawn, VALUES[turn % len(VALUES)]
