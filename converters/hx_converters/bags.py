"""Embedding bags, and embedding tables whose rows have a maximum norm."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted, loop
from ._halves import rounded_once
from .ordering import places
from .reduction import vector_norm


@converter("torch.embedding_renorm_", cases=[case("float32[5,3]", "int64[n]<5", 0.5, 2.0)])
def embedding_renorm(op, weight, indices, max_norm, norm_type=2.0):
    """Shorten, in the table itself, the rows that are looked up and exceed the maximum norm."""
    size = op.sizes([weight.shape[0]])
    places = op.Reshape(indices, [-1])
    some = op.Expand(op.constant(1), op.Shape(places))
    asked = op.ScatterElements(op.Expand(op.constant(0), size), places, some, axis=0)
    length = vector_norm(op, weight, norm_type, [1], True)
    long = op.Greater(length, op.constant(float(max_norm), length.dtype))
    scale = op.Div(op.constant(float(max_norm), length.dtype), op.Add(length, 1e-7))
    short = op.And(op.Unsqueeze(op.Equal(asked, 1), [1]), long)
    y = op.Where(short, op.Mul(weight, op.cast(scale, weight.dtype)), weight)
    op.assign(weight, y)
    return y


@converter(
    "torch.nn.functional.embedding_bag",
    cases=[
        case("int64[n,4]<5", "float32[5,3]", mode=mode, padding_idx=padding)
        for mode in ("sum", "mean", "max") for padding in (None, 2)
    ] + [
        case("int64[6]<5", "float32[5,3]", lambda: torch.tensor([0, 2, 2]), mode=mode)
        for mode in ("sum", "mean", "max")
    ],
)  # fmt: skip
def embedding_bag(op, input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False,
                  mode="mean", sparse=False, per_sample_weights=None, include_last_offset=False,
                  padding_idx=None):  # fmt: skip
    if max_norm is not None:
        return NotImplemented  # it writes to the weight first
    return _bagged(op, input, weight, offsets, mode, per_sample_weights, include_last_offset,
                   padding_idx)  # fmt: skip


_MODES = ("sum", "mean", "max")
_FLAT = ["float32[5,3]", lambda: torch.tensor([4, 1, 2, 0, 2, 3]), lambda: torch.tensor([0, 2, 2])]


@converter("torch.ops.aten._embedding_bag", "torch.ops.aten._embedding_bag_forward_only",
           cases=[case(*_FLAT, False, mode, False, None, False, padding)
                  for mode in range(3) for padding in (-1, 2)])  # fmt: skip
def embedding_bag_operator(op, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                           per_sample_weights=None, include_last_offset=False, padding_idx=-1):  # fmt: skip
    """Compute bags, and the results for backward: each row's bag, bag lengths, largest rows."""
    padding_idx = None if padding_idx < 0 else padding_idx
    y = _bagged(op, indices, weight, offsets, _MODES[mode], per_sample_weights,
                include_last_offset, padding_idx)  # fmt: skip
    starts, ends = _bags(op, indices, offsets, include_last_offset)
    _, bags, lengths, largest = op.result
    kind, none = offsets.dtype, op.Expand(op.constant(0, offsets.dtype), op.Shape(starts))
    owners = places(op, ends, counted(op, indices.shape[0]), True, kind)
    if op.same(bags.shape[0], 0):
        owners = op.constant([], kind)
    unsaid = op.constant([], kind) if op.same(largest.shape[0], 0) else None  # on a GPU
    if mode == 0:
        if include_last_offset and op.seen(lengths.shape[0]) == op.seen(offsets.shape[0]):
            none = op.Pad(none, [0, 1])
        return y, owners, none, none if unsaid is None else unsaid
    kept = op.Expand(op.constant(True), op.sizes(indices.shape))
    if padding_idx is not None:
        kept = op.Not(op.Equal(indices, op.constant(padding_idx, indices.dtype)))
    count = op.cast(_kept(op, kept, starts, ends), kind)
    if mode == 1:
        return y, owners, count, count if unsaid is None else unsaid
    found = _largest(op, y, op.Gather(weight, indices), owners, kept)
    found = op.Gather(op.Pad(indices, [0, 1]), found)  # one more, for bags without rows
    found = op.Where(op.Equal(op.Unsqueeze(count, [1]), 0), 0, found)
    return y, owners, count, op.cast(found, largest.dtype)


def _largest(op, y, rows, owners, kept):
    """Return the first row of each bag that holds its largest number."""
    bags = op.Unsqueeze(counted(op, y.shape[0], owners.dtype), [1])
    here = op.And(op.Equal(bags, owners), kept)
    same = op.Equal(op.Unsqueeze(rows, [0]), op.Unsqueeze(y, [1]))
    found = op.cast(op.And(same, op.Unsqueeze(here, [2])), torch.int32)
    return op.ArgMax(op.Pad(found, [0, 0, 0, 0, 1, 0]), axis=1, keepdims=0)


@converter("torch.embedding_bag", cases=[case(*_FLAT), case(*_FLAT, False, 2, False, None, False, -1)])  # fmt: skip
def embedding_bag_of_any_padding(op, weight, indices, offsets, scale_grad_by_freq=False, mode=0,
                                 sparse=False, per_sample_weights=None, include_last_offset=False,
                                 padding_idx=None):  # fmt: skip
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx = weight.shape[0] + padding_idx
    return embedding_bag_operator(op, weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                                  per_sample_weights, include_last_offset, padding_idx)  # fmt: skip


@rounded_once
def _bagged(op, input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx):
    rows = op.Gather(weight, input)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, [-1]))
    kept, neutral = None, -math.inf if mode == "max" else 0
    if padding_idx is not None:
        padding = weight.shape[0] + padding_idx if padding_idx < 0 else padding_idx
        kept = op.Not(op.Equal(input, op.constant(padding, input.dtype)))
        rows = op.Where(op.Unsqueeze(kept, [-1]), rows, neutral)
    if input.rank == 1:
        starts, ends = _bags(op, input, offsets, include_last_offset)
        y = joined(op, rows, starts, ends, op.Max if mode == "max" else op.Add, neutral)
        count = op.Sub(ends, starts) if kept is None else _kept(op, kept, starts, ends)
    else:
        reduce = op.ReduceMax if mode == "max" else op.ReduceSum
        y = reduce(rows, [1], keepdims=0)
        kept = op.Expand(op.constant(True), op.sizes(input.shape)) if kept is None else kept
        count = op.ReduceSum(op.cast(kept, torch.int64), [1], keepdims=0)
    if mode == "sum":
        return y
    count = op.Unsqueeze(count, [1])
    if mode == "max":
        return op.Where(op.Equal(count, 0), 0, y)
    return op.Div(y, op.cast(op.Max(count, 1), y.dtype))


def _bags(op, input, offsets, include_last_offset):
    """Return the starts and the ends of bags; a bag ends where the next one starts."""
    offsets = op.cast(offsets, torch.int64)
    if not include_last_offset:
        offsets = op.Concat(offsets, op.sizes(input.shape), axis=0)
    return between(op, offsets)


def between(op, offsets):
    """Return the starts and the ends of the ranges between neighbouring offsets."""
    return op.Slice(offsets, [0], [-1], [0]), op.Slice(offsets, [1], [2**62], [0])


def _kept(op, kept, starts, ends):
    """Count the kept elements of each bag."""
    passed = op.Pad(op.CumSum(op.cast(kept, torch.int64), op.constant(0)), [1, 0])
    return op.Sub(op.Gather(passed, ends), op.Gather(passed, starts))


def joined(op, rows, starts, ends, join, neutral):
    """Join the rows of each bag into one by doubling.

    Joins 1, 2, 4... rows from every row on; a bag combines those that add up to its length. The
    number of steps is the number of binary digits of the longest bag.
    """
    size, width = rows.shape
    none = op.Expand(op.constant(neutral, rows.dtype), op.sizes([1, width]))
    runs = op.Concat(rows, none, axis=0)  # one more, where a bag without rows may start
    steps, end = counted(op, size + 1), op.constant(size)
    bags = op.Expand(none, op.sizes([starts.shape[0], width]))

    def step(_, length, at, left, runs, bags):
        odd = op.Mod(left, 2)
        more = op.Where(op.Unsqueeze(op.Equal(odd, 1), [1]), op.Gather(runs, at), neutral)
        following = op.Gather(runs, op.Min(op.Add(steps, length), end))
        return (op.Mul(length, 2), op.Add(at, op.Mul(odd, length)), op.Div(left, 2),
                join(runs, following), join(bags, more))  # fmt: skip

    def go_on(length, at, left, runs, bags):
        return op.Greater(op.ReduceMax(left, [0], keepdims=0), 0)

    start = [op.constant(1), starts, op.Sub(ends, starts), runs, bags]
    return loop(op, None, start, step, go_on)[-1]
