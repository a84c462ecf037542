"""Packed sequences: sequences of different lengths, without padding, step by step.

`data` holds the first step of every sequence, then the second of those that have one, and so on;
`batch_sizes` holds their number at each step. The longest sequence comes first.
"""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted


def present(op, steps, rows, lengths):
    """Mark the rows that still go on at each step: [steps, rows]."""
    return op.Less(op.Unsqueeze(counted(op, steps), [1]), op.Unsqueeze(lengths, [0]))


def packed(op, x, there):
    """Pack [steps, rows, ...]: drop the steps after the end of each row."""
    rows = op.Reshape(x, op.sizes([-1, *x.shape[2:]]))
    return op.Compress(rows, op.Reshape(there, [-1]), axis=0)


def padded(op, data, batch_sizes, padding=0.0):
    """Unpack to [steps, rows, ...]; also return each row's length and a mask of its steps."""
    rows = op.Gather(batch_sizes, op.constant(0), axis=0)
    row = op.Unsqueeze(op.Range(0, rows, 1), [0])
    there = op.Less(row, op.Unsqueeze(batch_sizes, [1]))
    begins = op.CumSum(batch_sizes, op.constant(0), exclusive=1)
    at = op.Where(there, op.Add(op.Unsqueeze(begins, [1]), row), 0)
    kept = op.Unsqueeze(there, list(range(2, 1 + data.rank))) if data.rank > 1 else there
    filled = op.Where(kept, op.Gather(data, at, axis=0), op.constant(padding, data.dtype))
    return filled, op.ReduceSum(op.cast(there, torch.int64), [0], keepdims=0), there


@converter("torch._C._nn.pad_sequence",
           cases=[case(["float32[n,3]", "float32[m,3]"]),
                  case(["int64[n]<9", "int64[4]<9"], True, -1.0),
                  case(["float32[n,3]", "float32[4,3]"], True, 0.5, "left")])  # fmt: skip
def pad_sequence(op, sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    lengths = [x.shape[0] for x in sequences]
    known = all(type(n) is int for n in lengths)
    each = [op.sizes([n]) for n in lengths]
    longest = max(lengths) if known else op.ReduceMax(op.Concat(*each, axis=0), [0], keepdims=1)
    filler, left = op.constant(padding_value, op.result.dtype), padding_side == "left"
    rows = []
    for x, n, size in zip(sequences, lengths, each):
        if known:
            pads = [longest - n, 0] if left else [0, longest - n]
        else:
            more, none = op.Sub(longest, size), op.constant([0])
            pads = op.Concat(*((more, none) if left else (none, more)), axis=0)
        rows.append(op.Unsqueeze(op.Pad(x, pads, filler, [0]), [int(not batch_first)]))
    return op.Concat(*rows, axis=int(not batch_first))


@converter("torch._pack_padded_sequence",
           cases=[case("float32[3,4,2]", lambda: torch.tensor([4, 2, 1]), True)])  # fmt: skip
def pack_padded_sequence(op, input, lengths, batch_first):
    order = [1, 0, *range(2, input.rank)]
    x = op.Transpose(input, perm=order) if batch_first else input
    there = present(op, x.shape[0], x.shape[1], lengths)
    counts = op.ReduceSum(op.cast(there, torch.int64), [1], keepdims=0)
    longest = op.Reshape(op.ReduceMax(lengths, [0], keepdims=1), [1])
    return packed(op, x, there), op.Slice(counts, [0], longest, [0])


@converter("torch._pad_packed_sequence",
           cases=[case("float32[7,2]", lambda: torch.tensor([3, 2, 1, 1]), True, 0.5, 4)])  # fmt: skip
def pad_packed_sequence(op, data, batch_sizes, batch_first, padding_value, total_length):
    steps = batch_sizes.shape[0]
    if not op.same(steps, total_length):
        more = op.sizes([0, total_length - steps])
        batch_sizes = op.Pad(batch_sizes, more, op.constant(0, torch.int64))
    x, lengths, _ = padded(op, data, batch_sizes, padding_value)
    order = [1, 0, *range(2, 1 + data.rank)]
    return op.Transpose(x, perm=order) if batch_first else x, lengths
