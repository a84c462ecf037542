"""Fractional max pooling: windows whose distances are rounded from a random start."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, pair


def _starts(op, sample, size, window, count):
    """Return the starts of the windows along an axis for each plane; the last one is at the end."""
    kind = sample.dtype
    last = size - window
    if type(count) is int and count == 1:
        return op.Expand(op.constant([last]), op.sizes([*sample.shape, 1]))
    distance = op.Div(op.constant(last, kind), op.constant(count - 1, kind))
    sample = op.Unsqueeze(sample, [2])
    steps = op.Mul(op.Add(counted(op, count - 1, kind), sample), distance)
    first = op.cast(op.Mul(sample, distance), torch.int64)
    found = op.Sub(op.cast(steps, torch.int64), first)
    end = op.Expand(op.constant(last), op.sizes([*sample.shape[:2], 1]))
    return op.Concat(found, end, axis=2)


def _pooled(op, x, windows, counts, samples, order):
    axes = len(windows)
    batched = x.rank == axes + 2
    if not batched:  # there may be samples for more planes than there are
        x, samples = op.Unsqueeze(x, [0]), op.Slice(samples, [0], [1], [0])
    sizes = x.shape[2:]
    places = None
    for a in range(axes):
        sample = op.Gather(samples, op.constant(order[a]), axis=2)
        start = _starts(op, sample, sizes[a], windows[a], counts[a])
        at = op.Add(op.Unsqueeze(start, [3]), counted(op, windows[a]))  # [n, c, count, window]
        # Laid along the axes of its own among [counts..., windows...].
        at = op.Unsqueeze(at, [2 + i for i in range(2 * axes) if i not in (a, axes + a)])
        places = at if places is None else op.Add(op.Mul(places, op.constant(sizes[a])), at)
    n, c = x.shape[:2]
    lead = [n, c, *counts]
    inside = 1
    for window in windows:
        inside = inside * window
    places = op.Reshape(places, op.sizes([*lead, inside]))
    total = 1
    for count in counts:
        total = total * count
    flat = op.Reshape(x, op.sizes([n, c, -1]))
    picked = op.GatherElements(flat, op.Reshape(places, op.sizes([n, c, total * inside])), axis=2)
    picked = op.Reshape(picked, op.sizes([*lead, inside]))
    best = op.ArgMax(picked, axis=-1, keepdims=1)
    found = [op.Squeeze(op.GatherElements(v, best, axis=-1), [-1]) for v in (picked, places)]
    return tuple(found if batched else [op.Squeeze(v, [0]) for v in found])


@converter("torch._C._nn.fractional_max_pool2d",
           cases=[case("float32[2,3,7,9]", 2, [3, 4], lambda: torch.rand(2, 3, 2))])  # fmt: skip
def fractional_max_pool2d(op, self, kernel_size, output_size, random_samples):
    return _pooled(op, self, pair(kernel_size), pair(output_size), random_samples, (1, 0))


@converter("torch._C._nn.fractional_max_pool3d",
           cases=[case("float32[3,6,7,9]", [2, 3, 2], [3, 1, 4],
                       lambda: torch.rand(1, 3, 3))])  # fmt: skip
def fractional_max_pool3d(op, self, kernel_size, output_size, random_samples):
    return _pooled(op, self, pair(kernel_size, 3), pair(output_size, 3), random_samples, (0, 1, 2))
