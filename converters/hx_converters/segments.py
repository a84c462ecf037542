"""Reductions of adjacent rows, grouped by lengths or by offsets."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import reshaped
from .bags import between, joined

# The reduction of two rows, and the value of a segment without rows.
_JOINS = {"sum": ("Add", 0.0), "mean": ("Add", 0.0), "prod": ("Mul", 1.0),
          "max": ("Max", -math.inf), "min": ("Min", math.inf)}  # fmt: skip

LENGTHS, OFFSETS = (lambda: torch.tensor([2, 0, 3])), (lambda: torch.tensor([0, 2, 2, 5]))


@converter("torch.segment_reduce",
           cases=[*(case("float32[5,3]", reduce, lengths=LENGTHS) for reduce in _JOINS),
                  *(case("float64[5]", reduce, offsets=OFFSETS, initial=1) for reduce in _JOINS),
                  case("float32[5,n,2]", "amax", lengths=LENGTHS)])  # fmt: skip
def segment_reduce(op, data, reduce, *, lengths=None, indices=None, offsets=None, axis=0,
                   unsafe=False, initial=None):  # fmt: skip
    given = offsets if lengths is None else lengths
    if given is None or given.rank != 1 or axis not in (0, -data.rank):
        return NotImplemented
    starts, ends = _segments(op, lengths, offsets)
    reduce = reduce.removeprefix("a") if reduce in ("amax", "amin") else reduce
    name, neutral = _JOINS[reduce]
    width = 1
    for n in data.shape[1:]:
        width = n * width
    rows = reshaped(op, data, [data.shape[0], width])
    y = joined(op, rows, starts, ends, getattr(op, name), neutral)
    if initial is not None:
        y = getattr(op, name)(y, op.constant(initial, y.dtype))
    if reduce == "mean":
        count = op.Unsqueeze(op.Sub(ends, starts), [1])
        if initial is not None:
            count = op.Max(count, 1)
        y = op.Div(y, op.cast(count, y.dtype))
    return reshaped(op, y, [starts.shape[0], *data.shape[1:]])


def _segments(op, lengths, offsets):
    """Return the starts and the ends of segments."""
    if lengths is None:
        return between(op, op.cast(offsets, torch.int64))
    lengths = op.cast(lengths, torch.int64)
    ends = op.CumSum(lengths, op.constant(0))
    return op.Sub(ends, lengths), ends
