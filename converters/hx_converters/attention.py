"""Scaled dot product attention."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch


@converter(
    "torch.nn.functional.scaled_dot_product_attention",
    cases=[
        case("float32[n,2,s,4]", "float32[n,2,s,4]", "float32[n,2,s,4]"),
        case("float32[n,2,s,4]", "float32[n,2,s,4]", "float32[n,2,s,4]", is_causal=True),
        case("float32[n,2,3,4]", "float32[n,2,5,4]", "float32[n,2,5,4]", "bool[3,5]"),
    ],
)
def scaled_dot_product_attention(op, query, key, value, attn_mask=None, dropout_p=0.0,
                                 is_causal=False, scale=None, enable_gqa=False):  # fmt: skip
    if dropout_p:
        op.refuse("attention drops out although the model is in eval mode",
                  "pass dropout_p=0.0 when not training")  # fmt: skip
    if enable_gqa:
        key, value = _repeated(op, key, query), _repeated(op, value, query)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    # Both sides get the root of the factor, as PyTorch does, so that half floats keep range.
    root = factor**0.5 if not isinstance(factor, float) else math.sqrt(factor)
    axes = list(range(key.rank))
    axes[-2:] = axes[-1], axes[-2]
    scores = op.MatMul(op.Mul(query, root), op.Mul(op.Transpose(key, perm=axes), root))
    if is_causal:
        ones = op.Expand(op.constant(True), op.sizes([query.shape[-2], key.shape[-2]]))
        scores = _masked(op, scores, op.Trilu(ones, upper=0))
    if attn_mask is not None:
        boolean = attn_mask.dtype == torch.bool
        scores = _masked(op, scores, attn_mask) if boolean else op.Add(
            scores, op.cast(attn_mask, scores.dtype))  # fmt: skip
    weights = op.Softmax(scores, axis=-1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # A row that sees nothing gives zeros in PyTorch, not NaN.
        weights = op.Where(op.IsNaN(weights), 0, weights)
    return op.MatMul(weights, value)


def _masked(op, scores, keep):
    return op.Where(keep, scores, -math.inf)


def _repeated(op, x, query):
    """Each head of keys and values stands for several heads of queries."""
    heads, wanted = x.shape[-3], query.shape[-3]
    times = wanted // heads
    if type(times) is int and times == 1:
        return x
    lead, (length, width) = list(x.shape[:-3]), x.shape[-2:]
    wide = op.Expand(op.Unsqueeze(x, [-3]), op.sizes([*lead, heads, times, length, width]))
    return op.Reshape(wide, op.sizes([*lead, wanted, length, width]))
