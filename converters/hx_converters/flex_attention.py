"""Attention whose scores and mask are functions of the positions of a query and a key."""

from __future__ import annotations

import math

from hx import converter
from hx.lazy import torch


# See tests/converters/test_flex_attention.py: a case cannot have functions as arguments.
@converter("torch.nn.attention.flex_attention.flex_attention", cases=[])
def flex_attention(op, *args, **kwargs):
    return op.instead(_attended)


def _attended(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
              return_lse=False, kernel_options=None, *, return_aux=None):  # fmt: skip
    """Compute attention from all scores at once. A query that sees nothing gets zeros."""
    heads, length = query.shape[-3:-1]
    if enable_gqa:
        key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    batch = torch.arange(query.shape[0])[:, None, None, None]
    head = torch.arange(heads)[:, None, None]
    row, column = torch.arange(length)[:, None], torch.arange(key.shape[-2])
    scores = (
        query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    )
    scores = scores.float() if scores.dtype != torch.float64 else scores
    if score_mod is not None:
        scores = score_mod(scores, batch, head, row, column)
    if block_mask is not None:
        seen = block_mask.mask_mod(batch, head, row, column)
        scores = torch.where(seen, scores, -math.inf)
    most = scores.amax(-1, keepdim=True)
    shares = (scores - torch.where(most == -math.inf, 0.0, most)).exp()
    total = shares.sum(-1, keepdim=True)
    y = (shares / torch.where(total == 0, 1.0, total)).to(query.dtype) @ value
    if return_aux is None and not return_lse:
        return y
    lse = (most + total.log()).squeeze(-1)
    if return_aux is None:
        return y, lse
    kind = torch.nn.attention.flex_attention.AuxOutput
    return y, kind(lse=lse if return_aux.lse else None,
                   max_scores=most.squeeze(-1) if return_aux.max_scores else None)  # fmt: skip
