"""Inputs of other sizes than those that were given, for recordings that are to go other ways."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from .othersizes import Sizes, at, limits_of, sizes_of

if TYPE_CHECKING:
    import torch

    from ...recording.prepared import Prepared

MIXED = 8  # inputs that are made of the sizes of others
MANY = 1000  # sizes that are looked at
LARGE = 4096
STAYS = 0.3  # of them are as recorded
SOME = 3  # of those that lead along a way, the nearest


def _times(n: int, recorded: int) -> float:
    """How far off a size is: a batch of 24 is farther from one than 200 pixels from 100."""
    return abs(math.log(n / recorded)) if n and recorded else math.inf


class Elsewhere:
    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.recorded = sizes_of(prepared)

    @functools.cached_property
    def sizes(self) -> list[Sizes]:
        """Many that the inputs may have together, from the smallest to large ones."""
        words, limits = self.recorded, limits_of(self._prepared)
        if not words:
            return [{}]
        chance = random.Random(0)
        found = [dict(words)]
        if len(words) == 1:
            (word,) = words
            found += [{word: n} for n in (*range(1, MANY), *range(MANY, LARGE, 16))]
        for _ in range(MANY if len(words) > 1 else 0):
            far = 2 ** chance.uniform(0, LARGE.bit_length() - 1)  # most are about as large
            drawn = {
                word: max(1, round(far * 2 ** chance.uniform(-2, 2) / limits[word].step))
                * limits[word].step
                for word in words
            }
            stays = {word for word in words if chance.random() < STAYS}
            found.append({word: words[word] if word in stays else n for word, n in drawn.items()})
        return [each for each in found if all(limits[w].hold(n) for w, n in each.items())]

    def at_some(
        self, several: Iterable[Sizes], fit: Callable[[Sizes], bool]
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Inputs of those of the sizes that are nearest to the recorded ones, and `fit`."""
        here = self.recorded
        different = {tuple(sizes.items()): sizes for sizes in several}.values()
        nearest = sorted(different, key=lambda s: sum(_times(n, here[w]) for w, n in s.items()))
        for sizes in itertools.islice(filter(fit, nearest), SOME):
            yield at(self._prepared, sizes)

    def mixed(
        self, several: Iterable[Mapping[str, torch.Tensor]], fit: Callable[[Sizes], bool]
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Inputs with sizes that several others have, but none of these together, and that `fit`."""
        known = [sizes_of(self._prepared, tensors) for tensors in several]
        words = list(self.recorded)
        each = [[*dict.fromkeys(sizes[word] for sizes in known)] for word in words]
        found = (dict(zip(words, sizes)) for sizes in itertools.product(*each))
        new = (sizes for sizes in found if sizes not in known)
        for sizes in filter(fit, itertools.islice(new, MIXED)):
            yield at(self._prepared, sizes)
