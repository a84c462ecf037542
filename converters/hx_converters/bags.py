"""Bags of embeddings, and tables whose rows are kept short."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted
from ._halves import rounded_once
from .reduction import vector_norm


@converter("torch.embedding_renorm_", cases=[case("float32[5,3]", "int64[n]<5", 0.5, 2.0)])
def embedding_renorm(op, weight, indices, max_norm, norm_type=2.0):
    """Rows that are asked for, and longer than allowed, are written back shorter."""
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
        weight = embedding_renorm(op, weight, input, max_norm, norm_type)
    return _bagged(op, input, weight, offsets, mode, per_sample_weights, include_last_offset,
                   padding_idx)  # fmt: skip


@rounded_once
def _bagged(op, input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx):
    rows = op.Gather(weight, input)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, [-1]))
    if padding_idx is not None and padding_idx < 0:
        padding_idx = weight.shape[0] + padding_idx
    kept = (
        None
        if padding_idx is None
        else op.Not(op.Equal(input, op.constant(padding_idx, input.dtype)))
    )
    if input.rank == 1:
        inside = _inside(op, input, offsets, include_last_offset)
        kept = inside if kept is None else op.And(inside, kept)
    elif kept is None:
        kept = op.Expand(op.constant(True), op.sizes(input.shape))
    share = op.cast(kept, weight.dtype)
    count = op.ReduceSum(share, [1])
    if mode == "max":
        rows = op.Unsqueeze(rows, [0]) if input.rank == 1 else rows
        rows = op.Where(op.Unsqueeze(kept, [-1]), rows, -math.inf)
        return op.Where(op.Equal(count, 0), 0, op.ReduceMax(rows, [1], keepdims=0))
    if input.rank == 1:
        total = op.MatMul(share, rows)
    else:
        total = op.ReduceSum(op.Mul(rows, op.Unsqueeze(share, [-1])), [1], keepdims=0)
    return total if mode == "sum" else op.Div(total, op.Where(op.Equal(count, 0), 1, count))


def _inside(op, input, offsets, include_last_offset):
    """[bags, elements]: whether an element lies in a bag, which reaches to the start of the next."""
    size = input.shape[0]
    starts, ends = offsets, op.Slice(offsets, [1], [2**62], [0])
    if include_last_offset:
        starts = op.Slice(offsets, [0], [-1], [0])
    else:
        ends = op.Concat(ends, op.cast(op.sizes([size]), offsets.dtype), axis=0)
    places = counted(op, size, offsets.dtype)
    past = op.GreaterOrEqual(places, op.Unsqueeze(starts, [1]))
    return op.And(past, op.Less(places, op.Unsqueeze(ends, [1])))
