"""Tables whose rows have a meaning as a whole: the cells of a point cloud, and boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..budget import BUDGET
from .number_properties import in_order, is_rising, is_whole

if TYPE_CHECKING:
    import torch


def cells_or_boxes(old: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """Return rows that all differ: boxes, if the recorded rows may be some, or else cells."""
    import torch

    if are_boxes(old):
        found = boxes(old, 4 * count, rng).unique(dim=0)
        if len(found) >= count:
            return found[torch.randperm(len(found), generator=rng)[:count]]
    return _cells(old, count, rng)


def are_boxes(rows: torch.Tensor) -> bool:
    """Return True if the last two columns are never below the two before them.

    Fewer than three rows may do so by chance. Rows that rise are something else.
    """
    if (
        not 4 <= rows.shape[1] <= BUDGET.elements.columns
        or len(rows) < 3
        or bool((rows.diff(dim=1) >= 0).all())
    ):
        return False
    extents = rows[:, -2:] - rows[:, -4:-2]
    return bool((extents >= 0).all()) and bool((extents > 0).any())


def corners_are_in_order(old: torch.Tensor) -> bool:
    """Return True if the last two columns are never below the two before them, as in boxes."""
    return old.shape[-1:] >= (4,) and bool((old[..., -2:] >= old[..., -4:-2]).all())


def with_corners_in_order(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Keep boxes boxes: swap the corners of new ones where the old ones were in order."""
    import torch

    if not corners_are_in_order(old):
        return new
    first, last = new[..., -4:-2], new[..., -2:]
    ends = [torch.minimum(first, last), torch.maximum(first, last)]
    return torch.cat([new[..., :-4], *ends], -1)


def boxes(old: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """Return boxes as large as recorded ones and close to them, each column in its own bounds."""
    import torch

    places = [torch.randperm(len(old), generator=rng) for _ in range(-(-count // len(old)))]
    rows = old[torch.cat(places)[:count]]
    extents = torch.zeros_like(rows[:, :-2])
    extents[:, -2:] = rows[:, -2:] - rows[:, -4:-2]
    far = max(1, count // len(old))
    moved = rows[:, :-2] + torch.randint(-far, far + 1, extents.shape, generator=rng)
    low, high = old[:, :-2].min(0).values, old[:, :-2].max(0).values
    high[-2:] = old[:, -2:].max(0).values
    moved = torch.minimum(torch.maximum(moved, low), high - extents)
    return torch.cat([moved, moved[:, -2:] + extents[:, -2:]], -1)


def are_cells(old: torch.Tensor) -> bool:
    """Return True for a table of whole numbers, longer than wide, in which no row occurs twice."""

    if (
        old.dim() != 2
        or not 1 < old.shape[1] <= BUDGET.elements.columns
        or len(old) <= old.shape[1]
    ):
        return False
    return is_whole(old) and len(old.long().unique(dim=0)) == len(old)


def _cells(old: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """Return `count` rows, no two alike, with each column in its recorded range.

    They lie at most a step beside the old ones, as far as there is room: a computation that depends
    on neighbouring points would see nothing of points that are strewn at random.
    """
    import numpy
    import torch

    low, high = old.min(0).values, old.max(0).values
    bases = old[torch.randint(0, len(old), (max(2 * count - len(old), 0),), generator=rng)]
    bases = torch.cat([old[torch.randperm(len(old), generator=rng)], bases])
    near = bases + torch.randint(-1, 2, bases.shape, generator=rng)
    anywhere = torch.rand((2 * count, old.shape[1]), generator=rng, dtype=torch.float64)
    anywhere = (low + anywhere * (high - low + 1)).floor().long()
    pool = torch.cat([near.clamp(low, high), anywhere.clamp(low, high), old])
    pool = in_order(pool) if is_rising(old) else pool
    _, first = numpy.unique(pool.numpy(), axis=0, return_index=True)
    picked = torch.from_numpy(numpy.sort(first))[:count]
    if len(picked) < count:  # there is no room for so many
        picked = picked[torch.arange(count) % len(picked)]
    new = pool[picked]
    if torch.equal(old, old.unique(dim=0)):  # in order
        return new[numpy.lexsort(new.numpy().T[::-1])]
    return new
