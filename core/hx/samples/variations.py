"""Samples of an input: other inputs that a model must take if it took this one.

A recorded input is an example: `fresh` makes another with the same shape, dtype and distribution
and other values; `resized` makes one of another size. The purpose of an input is not known, so each
property that may matter is kept: its range and sign, and whether its values are whole numbers, 0 or
1, sorted, consecutive or all different, the ends of the parts of a whole, or their lengths. The
columns of a small table keep their own ranges; rows of whole numbers that all differ (the cells of
a point cloud) still differ; a mask leaves something open in every row. Imports torch when it is
called.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..budget import BUDGET
from .boxes_and_cells import are_boxes, are_cells, boxes, cells_or_boxes, with_corners_in_order
from .number_properties import (
    are_two_ends,
    ends,
    finite_part,
    first_few,
    in_order,
    is_rising,
    is_whole,
)

if TYPE_CHECKING:
    import torch

Bounds = Mapping[Any, tuple[float, float]]
Tensors = TypeVar("Tensors", Sequence, Mapping)


def fresh(tensors: Tensors, bounds: Bounds | None = None, seed: int = 0) -> Any:
    """Return new values for a list or a dict of tensors; anything that is not a tensor stays.

    `bounds` gives lowest and highest value (inclusive) by key or place, in place of the recorded
    range. The same tensor twice gives the same new tensor twice. A name with "mask" in it is a
    hint.
    """
    import torch

    named = isinstance(tensors, Mapping)
    items: dict[Any, Any] = dict(
        tensors.items() if isinstance(tensors, Mapping) else enumerate(tensors)
    )
    sizes = {n: n for t in items.values() if isinstance(t, torch.Tensor) for n in t.shape}
    made: dict[int, Any] = {}
    out = {}
    for key, tensor in items.items():
        if isinstance(tensor, torch.Tensor) and id(tensor) not in made:
            rng = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{key}".encode()))
            mask = named and "mask" in str(key).lower()
            bound = (bounds or {}).get(key)
            new = _fresh(tensor, bound, mask, rng)
            made[id(tensor)] = new if bound else making_up(new, tensor, sizes, rng)
        out[key] = made.get(id(tensor), tensor)
    return out if named else list(out.values())


def renumbered(tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """Return inputs with other whole numbers where `fresh` changes none, by the kind of the change.

    These are single numbers, such as a step or a length, or numbers that rise evenly, as positions
    do. Other values may mean nothing to a model: this is for a model that asked about them.
    """
    stuck = {
        name
        for name, new in fresh(tensors, seed=1).items()
        if is_whole(new) and new.equal(tensors[name]) and (new.numel() == 1 or new.long().max() > 1)
    }
    ways = {
        "halved": lambda t: t // 2,
        "zero": lambda t: t * 0,
        "larger": lambda t: t * 2 + 8,
        "reversed": lambda t: t.flip(-1) if t.dim() else t,  # lengths may rise by chance
    }
    return {
        f"{way} {', '.join(sorted(stuck))}": {
            name: change(tensor.detach().long()).to(tensor.dtype) if name in stuck else tensor
            for name, tensor in tensors.items()
        }
        for way, change in ways.items()
        if stuck
    }


def resized(
    tensor: torch.Tensor,
    sizes: Mapping[int, int],
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    mask: bool = False,
    counted: bool = True,
) -> torch.Tensor:
    """Return the tensor cut or repeated to other sizes by axis, with fresh values.

    Positions are counted on if `counted` is set.
    """
    import torch

    out = tensor.detach().cpu()
    if list(sizes) == [0] and bounds is None and are_cells(out):
        rng = torch.Generator().manual_seed(zlib.crc32(f"{seed}/cells".encode()))
        return cells_or_boxes(out.long(), sizes[0], rng).to(out.dtype).to(tensor.device)
    out = repeated(out, sizes, counted)
    key = "mask" if mask else "input"
    made = fresh({key: out.contiguous()}, {key: bounds} if bounds else None, seed)[key]
    return _laid_out(made, tensor).to(tensor.device)


def repeated(tensor: torch.Tensor, sizes: Mapping[int, int], counted: bool = True) -> torch.Tensor:
    """Return the tensor cut or repeated to other sizes by axis."""
    import torch

    out = tensor
    for axis, size in sizes.items():
        have = out.shape[axis]
        if size <= have:
            out = out.narrow(axis, 0, size)
        elif have == 0:
            shape = list(out.shape)
            shape[axis] = size
            out = out.new_zeros(shape)
        else:
            places: Any = (*[slice(None)] * axis, torch.arange(size) % have)
            more = out[places]  # indexing works for every dtype
            more = _continued(out, more, axis) if counted else more
            rising = is_rising(out, axis) or are_two_ends(out)
            out = in_order(more, axis) if rising else more
    return out


def jitter(tensors: Sequence, seed: int = 0) -> list:
    """Return the inputs with each float moved up or down by one unit in the last place."""
    import torch

    out = []
    for place, tensor in enumerate(tensors):
        if isinstance(tensor, torch.Tensor) and tensor.is_complex():
            parts = torch.view_as_real(tensor.detach().cpu().resolve_conj())
            moved = torch.view_as_complex(jitter([parts], seed + place)[0].contiguous())
            tensor = moved.to(tensor.device)
        elif isinstance(tensor, torch.Tensor) and tensor.dtype.is_floating_point:
            rng = torch.Generator().manual_seed(zlib.crc32(f"{seed}/jitter/{place}".encode()))
            side = torch.randint(0, 2, tensor.shape, generator=rng) * 2 - 1
            step = torch.finfo(tensor.dtype).eps * side
            plain = tensor.detach().cpu().double()
            tensor = (plain * (1 + step)).to(tensor.dtype).to(tensor.device)
        out.append(tensor)
    return out


def _fresh(
    tensor: torch.Tensor, bounds: tuple[float, float] | None, mask: bool, rng: torch.Generator
) -> torch.Tensor:
    import torch

    old = tensor.detach().cpu()
    old = old if old.layout is torch.strided else old.to_dense()
    if old.numel() == 0:
        return tensor.detach().clone()
    if old.dtype is torch.bool:
        new = _mask(old, rng)
    elif old.dtype.is_complex:
        parts = torch.view_as_real(old.resolve_conj())
        halves = [_floats(half, None, False, rng) for half in parts.unbind(-1)]
        new = torch.complex(*halves)
    elif old.dtype.is_floating_point:
        single = old.dtype is torch.float32 and old.numel() > BUDGET.elements.drawn_in_float64
        new = _floats(old if single else old.double(), bounds, mask, rng)
    else:
        new = _ints(old.long(), bounds, mask, rng)
    return _laid_out(new.to(old.dtype), old).to(tensor.device)


def _laid_out(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """Give a tensor the memory order of the old one: it may decide what a model copies."""
    if old.is_contiguous():
        return new
    order = sorted(range(old.dim()), key=lambda axis: -old.stride()[axis])
    return new.permute(order).contiguous().permute([order.index(axis) for axis in range(old.dim())])


def _mask(old: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Draw a mask; the first of each row stays, and longer rows have both True and False.

    With the first one open, every position still sees something under a causal mask as well. A row
    that only falls or only rises (padding) stays such a row.
    """
    import torch

    if old.dim() == 0 or old.shape[-1] == 1:
        return old.clone()
    rows = old.reshape(-1, old.shape[-1])
    length = rows.shape[-1]
    if not (rows == rows[:, :1]).all() and bool((rows[:, 1:] <= rows[:, :-1]).all()):
        return _padding(rows, rng).reshape(old.shape)
    if not (rows == rows[:, :1]).all() and bool((rows[:, 1:] >= rows[:, :-1]).all()):
        whole = bool(rows.all(-1).any())  # else True hides, and a row with nothing else hides all
        return _padding(rows, rng, whole).flip(-1).reshape(old.shape)
    share = min(max(rows.double().mean().item(), 0.3), 0.8)
    new = torch.rand(rows.shape, generator=rng) < share
    new[:, 0] = rows[:, 0]
    other = torch.randint(1, length, (len(rows),), generator=rng)
    lonely = (new == new[:, :1]).all(-1)
    flipped = new.clone()
    flipped[torch.arange(len(rows)), other] = ~rows[:, 0]
    return torch.where(lonely[:, None], flipped, new).reshape(old.shape)


def _padding(rows: torch.Tensor, rng: torch.Generator, whole: bool = True) -> torch.Tensor:
    """Return rows of at least one True, then False; rows without False only if `whole`."""
    import torch

    lengths = torch.randint(1, rows.shape[-1] + whole, (len(rows), 1), generator=rng)
    return torch.arange(rows.shape[-1]) < lengths


def _ints(
    old: torch.Tensor, bounds: tuple[float, float] | None, mask: bool, rng: torch.Generator
) -> torch.Tensor:
    import torch

    low, high = int(old.min()), int(old.max())
    length = old.shape[-1] if old.dim() else 1
    if bounds is None and low >= 0 and high == 1 and length > 1 and (mask or low == 0):
        return _int_mask(old, rng)
    rows = old.reshape(-1, length)
    steps = rows[:, 1:] - rows[:, :-1]
    if _even(steps, -1) or (old.dim() == 1 and length == 2 and bool((steps > 0).all())):
        return old.clone()  # positions, or the ends of two parts
    rising = bool((steps >= 0).all()) and bool((steps > 0).any())
    rising = rising and (steps.numel() != 2 or is_rising(old))
    distinct = length > 1 and bool((rows.sort(-1).values.diff(dim=-1) != 0).all())
    if bounds is not None:
        low, high = int(bounds[0]), int(bounds[1])
    elif are_cells(old):
        return cells_or_boxes(old, len(old), rng)
    elif are_boxes(rows):
        return boxes(rows, len(rows), rng).reshape(old.shape)
    elif rising:
        return _parts(rows, distinct, rng).reshape(old.shape)
    if distinct and length <= high - low + 1 <= 1 << 20:
        scores = [torch.randperm(high - low + 1, generator=rng)[:length] for _ in rows]
        new = torch.stack(scores) + low
    else:
        new = torch.randint(low, min(high + 1, 2**63 - 1), rows.shape, generator=rng)
    return (new.sort(-1).values if rising else new).reshape(old.shape)


def _int_mask(old: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return another mask of 0 and 1; one that lets everything through now hides some padding."""
    if bool((old == 1).all()):
        return _padding(old.reshape(-1, old.shape[-1]), rng).reshape(old.shape).long()
    return _mask(old.bool(), rng).long()


def _parts(rows: torch.Tensor, distinct: bool, rng: torch.Generator) -> torch.Tensor:
    """Return rising rows, each from its first to its last number: usually starts or ends of parts.

    The last number, where the last part ends, stays.
    """
    import torch

    drawn = []
    for row in rows:
        low, high, count = int(row[0]), int(row[-1]), len(row)
        if distinct and high - low < 1 << 20:
            new = torch.randperm(high - low + 1, generator=rng)[:count] + low
        else:
            new = torch.randint(low, min(high + 1, 2**63 - 1), row.shape, generator=rng)
        drawn.append(new.sort().values)
    new = torch.stack(drawn)
    if begins_at_0(rows):
        new[:, 0] = 0
    new[:, -1] = rows[:, -1]
    return new


def ending(new: torch.Tensor, old: torch.Tensor, sizes: Mapping[int, int]) -> torch.Tensor:
    """Return the ends of parts of a whole of another size, where the last part ends with it.

    Numbers that are not such ends stay. If no part was empty, none is now, if there is room for as
    many.
    """
    begun = end_at(old, sizes) and begins_at_0(old)
    if not end_at(old, sizes) or not new.shape[-1] > begun:
        return new
    end, rows = int(old.reshape(-1)[-1]), new.reshape(-1, new.shape[-1]).long()
    size = sizes[end]
    parts = rows.shape[1] - begun
    made = (rows * size).div(end, rounding_mode="floor")
    if begun:
        made[:, 0] = 0
    made[:, -1] = size
    if bool((old.long().diff(dim=-1) > 0).all()) and parts <= size:
        for row in made:
            if (not begun and row[0] < 1) or bool((row.diff() < 1).any()):
                row[begun:-1] = _some_below(size, parts - 1)
    return made.reshape(new.shape).to(new.dtype)


def making_up(
    new: torch.Tensor,
    old: torch.Tensor,
    sizes: Mapping[int, int],
    rng: torch.Generator | None = None,
) -> torch.Tensor:
    """Return lengths of parts that add up to a whole of another size.

    Each is as long as one was, if such parts can make it up.
    """
    import torch

    if not makes_up(old, sizes) or not new.numel():
        return new
    lengths, size, count = old.long(), sizes[int(old.long().sum())], len(new)
    low, high = int(lengths.min()), int(lengths.max())
    least = min(low, 1)
    if not count * least <= size:
        return new
    if not count * low <= size <= count * high:
        low, high = least, size
    rng = rng or torch.Generator().manual_seed(size)
    made = new.long().clamp(low, high)
    for place in torch.randperm(count, generator=rng).tolist():
        rest = size - int(made.sum())
        made[place] = (made[place] + rest).clamp(low, high)
    return made.to(new.dtype)


def makes_up(old: torch.Tensor, sizes: Container[int]) -> bool:
    """Return True if these are lengths of parts that add up to one of the sizes.

    A sum that equals the number of parts is taken for chance: 0 and 2 are where two bags begin.
    """
    if not is_whole(old) or old.dim() != 1 or len(old) < 2:
        return False
    lengths = old.long()
    whole = int(lengths.sum())
    return bool(lengths.min() >= 0 and lengths.max() > 1) and whole in sizes and whole != len(old)


def whole_of(old: torch.Tensor, sizes: Container[int]) -> int:
    """Return the size whose parts a tensor describes, by their ends or lengths; 0 if none."""
    if end_at(old, sizes):
        return int(old.reshape(-1)[-1])
    return int(old.long().sum()) if makes_up(old, sizes) else 0


def _some_below(size: int, count: int) -> torch.Tensor:
    """Return `count` different numbers from 1 to `size` - 1, in order."""
    import torch

    rng = torch.Generator().manual_seed(size)
    return (torch.randperm(size - 1, generator=rng)[:count] + 1).sort().values


def end_at(old: torch.Tensor, sizes: Container[int]) -> bool:
    """Return True if a tensor holds starts or ends of parts, and the last one equals a known size."""
    if not is_whole(old) or old.dim() == 0 or not old.numel() or not old.shape[-1] > 1:
        return False
    old = old.long()  # PyTorch cannot compare large unsigned numbers
    end, steps = int(old.reshape(-1)[-1]), old.diff(dim=-1)
    if not begins_at_0(old) and (bool((old[..., 0] < 1).any()) or bool((steps == 1).all())):
        return False  # positions, counted from 1 on
    return end > 0 and end in sizes and bool((old[..., -1] == end).all() and (steps >= 0).all())


def begins_at_0(ends: torch.Tensor) -> bool:
    """Return True if the start of the first part is among the ends of parts."""
    return bool((ends[..., :1] == 0).all())


def _floats(
    old: torch.Tensor, bounds: tuple[float, float] | None, mask: bool, rng: torch.Generator
) -> torch.Tensor:
    import torch

    known = finite_part(old)
    if known.numel() == 0:
        return old.clone()
    low, high = ends(known) if bounds is None else bounds
    if bounds is None and low == high and known is old:
        return _from_constant(old, low, mask, rng)
    if bounds is None and old.numel() > 2 and old.dim():
        top, bottom = old.max(), old.min()
        if _are_two_values(old, top, bottom):  # a mask, whatever its values are
            return torch.where(_mask(old == top, rng), top, bottom)
    columns = old.shape[-1] if old.dim() > 1 else 1
    is_table = old.dim() == 2 and 1 < columns <= BUDGET.elements.columns and len(old) > 1
    if bounds is None and is_table and known is old:
        if bool((old == old[0]).all()):
            new = _rows_unlike(old, rng)
        else:
            new = torch.stack([_drawn(old[:, i], None, rng) for i in range(columns)], -1)
        # In rising rows, the columns' ranges rise, too: sorting keeps each column in its own.
        return in_order(new) if is_rising(old) else with_corners_in_order(old, new)
    new = _drawn(old, bounds, rng)
    return new if known is old else torch.where(old.isfinite(), new, old)


def _are_two_values(old: torch.Tensor, top: torch.Tensor, bottom: torch.Tensor) -> bool:
    """Return True if all elements have one of two values, and not all the first of them."""
    return all(
        bool(((some == top) | (some == bottom)).all()) for some in first_few(old)
    ) and not bool((old == top).all())


def _drawn(
    old: torch.Tensor, bounds: tuple[float, float] | None, rng: torch.Generator
) -> torch.Tensor:
    """Draw from a normal distribution around the recorded mean, folded into the recorded range."""
    import torch

    known = finite_part(old)
    low, high = bounds if bounds is not None else ends(known)
    if low == high:
        return old.clone()
    if max(abs(low), abs(high)) < 2**53 and _all_whole(known):
        return torch.randint(int(low), int(high) + 1, old.shape, generator=rng).to(old.dtype)
    spread = known.std().item() if known.numel() > 1 else (high - low) / 4
    new = torch.randn(old.shape, generator=rng, dtype=old.dtype)
    width = high - low
    new.mul_(spread).add_(known.mean().item() - low).remainder_(2 * width)
    new.sub_(width).abs_().neg_().add_(width).add_(low)  # values beyond the range are folded back
    if new.dtype is torch.float32:
        new.clamp_(low, high)  # rounding may have moved them beyond it
    return in_order(new) if is_rising(old) else new


def _rows_unlike(old: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return different rows for a row that occurs several times: its columns have no ranges.

    Zeros stay, and so do whole numbers beside others: they may be the index of a box's picture.
    """
    whole = old == old.round()
    stays = (old == 0) if bool(whole.all()) else whole
    return old.where(stays, _drawn(old, None, rng))


def _all_whole(known: torch.Tensor) -> bool:
    """Return True if all numbers are whole."""
    return all(bool((some == some.round()).all()) for some in first_few(known))


def _from_constant(
    old: torch.Tensor, value: float, mask: bool, rng: torch.Generator
) -> torch.Tensor:
    """Return new values for a constant tensor.

    Zeros do not reveal the range, ones may be a mask, and other numbers a size.
    """
    import torch

    if old.numel() == 1:
        return old * (0.75 + 0.25 * torch.rand(old.shape, generator=rng, dtype=old.dtype))
    if value == 0:
        return old.clone() if mask else torch.randn(old.shape, generator=rng, dtype=old.dtype)
    if value == 1 and (mask or old.dim() <= 2):
        rows = old.reshape(-1, old.shape[-1])
        return _padding(rows, rng).reshape(old.shape).to(old.dtype)
    return value * (0.5 + 0.5 * torch.rand(old.shape, generator=rng, dtype=old.dtype))


def _continued(old: torch.Tensor, more: torch.Tensor, axis: int) -> torch.Tensor:
    """Return positions that are counted on, in place of ones repeated to a larger size."""
    import torch

    if old.dtype.is_complex or old.dtype is torch.bool or old.shape[axis] < 2:
        return more
    steps = old.double().diff(dim=axis)
    if not _even(steps, axis, old.dtype.is_floating_point):
        return more
    step = steps.reshape(-1)[0]
    shape = [1] * old.dim()
    shape[axis] = -1
    count = torch.arange(more.shape[axis], dtype=torch.float64).reshape(shape)
    return (old.double().narrow(axis, 0, 1) + step * count).to(old.dtype)


def _even(steps: torch.Tensor, axis: int, floats: bool = False) -> bool:
    """Return True if numbers rise or fall evenly, as positions do.

    Any two numbers do. Two tokens do not count, unless the second is the first plus one.
    """
    if not steps.numel() or not bool((steps == steps.reshape(-1)[0]).all()):
        return False
    step, count = steps.reshape(-1)[0].item(), steps.shape[axis]
    return step != 0 and (count > 1 or (step == 1 and not floats))
