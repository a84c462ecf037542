"""Descriptions of inputs, as "float[b,n=6,4]", and inputs that are drawn from them.

    float double half bfloat16 complex    normal numbers
    positive uniform rising               of float32: above 0, from 0 to 1, rising along the last axis
    signed int32 uint8                    small integers, of either sign where the dtype has them
    int[b,n]<10  int[b]<n                 from 0 to below a number, or below a size
    lengths[b]<n                          from 1 to a size
    bool                                  masks
    padding                               masks whose rows begin with ones
    boxes[n]                              n boxes, each x1, y1, x2, y2

A word is a size that may change, `n=6` its recorded value, and `n%4=8` one in steps of 4.
"""

from __future__ import annotations

import itertools
import random
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from ..planted.drawn_inputs import Size

USUAL = {"b": 3, "n": 5, "t": 6, "s": 4, "h": 12, "w": 10, "m": 7, "k": 4}
DTYPES = {
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "complex": torch.complex64,
    "int": torch.int64,
    "lengths": torch.int64,
    "signed": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "padding": torch.bool,
}
VALUES = ("normal", "large", "negative", "zero", "equal", "whole", "small", "spike", "positive")
TIED = ("zero", "equal", "whole")  # those with equal elements
NEAR = (*range(1, 21), 24, 31, 32, 33)
FAR = (48, 50, 51, 63, 64, 65, 100, 101, 127, 128, 131, 257, 500, 512, 513, 1000)
DEAR = 200_000  # elements of an input: larger ones are not drawn


@dataclass(frozen=True)
class Input:
    """A description of one input."""

    kind: str
    dims: tuple[int | str, ...]
    high: str = ""

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES.get(self.kind, torch.float32)

    def shape(self, sizes: Mapping[str, int]) -> list[int]:
        return [sizes[d] if isinstance(d, str) else d for d in self.dims]


def parsed(described: Mapping[str, str]) -> tuple[dict[str, Input], dict[str, Size]]:
    """Return the inputs, and the sizes that may change."""
    inputs, sizes = {}, {}
    for name, text in described.items():
        found = re.fullmatch(r"(\w+)\[([^]]*)\](?:<(\w+))?", text)
        assert found, text
        dims: list[int | str] = []
        for dim in filter(None, found[2].split(",")):
            parts = re.fullmatch(r"([a-z]+)(?:%(\d+))?(?:=(\d+))?", dim)
            if parts is None:
                dims.append(int(dim))
                continue
            word, step = parts[1], int(parts[2] or 1)
            if word not in sizes or parts[3]:
                sizes[word] = Size(int(parts[3] or USUAL[word]), step=step)
            dims.append(word)
        if found[1] == "boxes":
            dims.append(4)
        inputs[name] = Input(found[1], tuple(dims), found[3] or "")
    return inputs, sizes


def _floats(shape: list[int], values: str, rng: torch.Generator) -> torch.Tensor:
    x = torch.randn(shape, generator=rng)
    if values in ("large", "small"):
        return x * (100.0 if values == "large" else 0.01)
    if values == "whole":
        return (x * 2).round()
    if values in ("negative", "positive"):
        return x.abs() * (2.0 if values == "positive" else -2.0) + 0.0
    if values == "zero":
        return x * 0
    if values == "equal":
        return torch.full(shape, 0.75)
    if values == "spike" and x.numel():
        at = int(torch.randint(x.numel(), (1,), generator=rng))
        x.view(-1)[at] = 100.0
    return x


def _mask(shape: list[int], values: str, rng: torch.Generator) -> torch.Tensor:
    share = {"zero": 0.0, "equal": 1.0, "small": 0.1, "large": 0.9}.get(values, 0.5)
    return torch.rand(shape, generator=rng) < share


def _padding(shape: list[int], values: str, rng: torch.Generator) -> torch.Tensor:
    n = shape[-1]
    drawn = torch.randint(1, n + 1, (*shape[:-1], 1), generator=rng)
    ends = {"equal": n, "small": 1, "zero": 0}
    drawn = torch.full_like(drawn, ends[values]) if values in ends else drawn
    return torch.arange(n) < drawn


def _whole(
    shape: list[int], low: int, high: int, values: str, rng: torch.Generator
) -> torch.Tensor:
    """Return integers from `low` to below `high`."""
    drawn = torch.randint(low, max(high, low + 1), shape, generator=rng)
    ends = {"zero": max(low, 0), "equal": max(high, low + 1) - 1, "small": low}
    return torch.full(shape, ends[values]) if values in ends else drawn


def drawn(one: Input, sizes: Mapping[str, int], values: str, rng: torch.Generator) -> torch.Tensor:
    shape, kind = one.shape(sizes), one.kind
    if kind == "bool":
        return _mask(shape, values, rng)
    if kind == "padding":
        return _padding(shape, values, rng)
    if kind in ("int", "lengths"):
        high = int(one.high) if one.high.isdigit() else sizes[one.high]
        return _whole(shape, *((1, high + 1) if kind == "lengths" else (0, high)), values, rng)
    if kind in ("signed", "int32", "uint8"):
        low, high = (0, 200) if kind == "uint8" else (-9, 10)
        high = int(one.high) if one.high else high
        return _whole(shape, low, high, values, rng).to(one.dtype)
    if kind == "uniform":
        uniform = torch.rand(shape, generator=rng)
        ends = {"zero": 0.0, "equal": 0.75}
        if values in ends:
            return torch.full(shape, ends[values])
        return (uniform * 4).floor() / 4 if values == "whole" else uniform
    if kind == "positive":
        return _floats(shape, values, rng).abs() + 0.05
    if kind == "rising":
        return _floats(shape, values, rng).sort(-1).values
    if kind == "boxes":
        wide = {"large": 200.0, "small": 1.0}.get(values, 20.0)
        ends = torch.rand([*shape[:-1], 2, 2], generator=rng) * wide
        made = torch.cat((ends[..., 0, :], ends.sum(-2) * (values != "zero")), -1)
        return made.round() if values in ("whole", "equal") else made
    if kind == "complex":
        return torch.complex(_floats(shape, values, rng), _floats(shape, values, rng))
    return _floats(shape, values, rng).to(one.dtype)


def draw(
    inputs: Mapping[str, Input], sizes: Mapping[str, int], values: str, seed: int
) -> dict[str, torch.Tensor]:
    """Return inputs of these sizes, and with values of this kind."""
    rng = torch.Generator().manual_seed(seed)
    return {name: drawn(one, sizes, values, rng) for name, one in inputs.items()}


def plans(
    name: str, inputs: Mapping[str, Input], sizes: Mapping[str, Size]
) -> Iterator[tuple[dict[str, int], str]]:
    """Yield sizes and kinds of values, none twice, at first the recorded ones."""
    seen = set()
    for plan, values in _plans(name, sizes):
        elements = (torch.Size(one.shape(plan)).numel() for one in inputs.values())
        key = (tuple(plan.values()), values)
        if key not in seen and max(elements, default=0) <= DEAR:
            seen.add(key)
            yield plan, values


def _plans(name: str, sizes: Mapping[str, Size]) -> Iterator[tuple[dict[str, int], str]]:
    rng = random.Random(zlib.crc32(name.encode()))
    recorded = {word: size.recorded for word, size in sizes.items()}
    for values in VALUES:
        yield recorded, values
    small = {word: size.near(2) for word, size in sizes.items()}
    for word, size in sizes.items():
        for n in map(size.near, NEAR):
            yield {**recorded, word: n}, "normal"
        for n in map(size.near, FAR):
            yield {**small, word: n}, "normal"
    for n, values in itertools.product((1, 2, 7, 33), ("normal", "negative", "equal", "zero")):
        yield {word: size.near(n) for word, size in sizes.items()}, values
    for turn in range(8 if len(sizes) > 1 else 3):
        yield {w: size.near(rng.choice(NEAR)) for w, size in sizes.items()}, VALUES[turn]
