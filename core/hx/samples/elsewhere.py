"""Inputs of other sizes than the given ones, for recordings that are to go other ways."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from ..budget import BUDGET
from ..ir.recipe import Recipe, Sizes
from .sizes import at, limits_of, sizes_of

STAYS = 0.3  # share of the drawn sizes that stay as recorded


def _times(n: int, recorded: int) -> float:
    """Return how far a size is from the recorded one: 24 is farther from 1 than 200 from 100."""
    return abs(math.log(n / recorded)) if n and recorded else math.inf


class Elsewhere:
    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self.recorded = sizes_of(recipe)

    @functools.cached_property
    def sizes(self) -> list[Sizes]:
        """Sizes that the inputs may have together, from the smallest to large ones."""
        words, limits = self.recorded, limits_of(self._recipe)
        if not words:
            return [{}]
        chance, count, largest = random.Random(0), BUDGET.sizes.drawn, BUDGET.sizes.larger_inputs
        found = [dict(words)]
        if len(words) == 1:
            (word,) = words
            found += [{word: n} for n in (*range(1, count), *range(count, largest, 16))]
        for _ in range(count if len(words) > 1 else 0):
            far = 2 ** chance.uniform(0, largest.bit_length() - 1)  # all sizes are close to it
            drawn = {
                word: max(1, round(far * 2 ** chance.uniform(-2, 2) / limits[word].step))
                * limits[word].step
                for word in words
            }
            stays = {word for word in words if chance.random() < STAYS}
            found.append({word: words[word] if word in stays else n for word, n in drawn.items()})
        return [each for each in found if limits.hold(each)]

    def at_some(
        self, several: Iterable[Sizes], fit: Callable[[Sizes], bool]
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Yield inputs of those sizes that `fit` and are nearest to the recorded ones."""
        here = self.recorded
        different = {tuple(sizes.items()): sizes for sizes in several}.values()
        nearest = sorted(different, key=lambda s: sum(_times(n, here[w]) for w, n in s.items()))
        for sizes in itertools.islice(filter(fit, nearest), BUDGET.sizes.nearest):
            yield at(self._recipe, sizes)

    def mixed(
        self, several: Iterable[Mapping[str, torch.Tensor]], fit: Callable[[Sizes], bool]
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Yield inputs with sizes of several others that do not occur together, and that `fit`."""
        known = [sizes_of(self._recipe, tensors) for tensors in several]
        words = list(self.recorded)
        each = [[*dict.fromkeys(sizes[word] for sizes in known)] for word in words]
        found = (dict(zip(words, sizes)) for sizes in itertools.product(*each))
        new = (sizes for sizes in found if sizes not in known)
        for sizes in filter(fit, itertools.islice(new, BUDGET.sizes.mixed)):
            yield at(self._recipe, sizes)
