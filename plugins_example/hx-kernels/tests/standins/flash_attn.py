"""The public functions of flash-attn, and what they compute according to its documentation."""

import torch

__version__ = "2.8.0"


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    (batch, queries, heads, width), keys = q.shape, k.shape[1]
    k, v = (x.repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k).float()
    scores = scores * (width**-0.5 if softmax_scale is None else softmax_scale)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    # The last query stands beside the last key.
    ahead = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
    if alibi_slopes is not None:
        slopes = alibi_slopes.expand(batch, heads)[:, :, None, None]
        scores = scores - slopes * ahead.abs()
    left, right = window_size
    hidden = torch.zeros_like(ahead, dtype=torch.bool)
    if causal:
        right = 0
    if left >= 0:
        hidden |= ahead < -left
    if right >= 0:
        hidden |= ahead > right
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    weights = weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)
    return torch.einsum("bhqk,bkhd->bqhd", weights.to(v.dtype), v)


def flash_attn_qkvpacked_func(
    qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    return flash_attn_func(*qkv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes)  # fmt: skip


def flash_attn_kvpacked_func(
    q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    return flash_attn_func(q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes)  # fmt: skip


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False, block_table=None,
):  # fmt: skip
    found = []
    starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for i in range(len(starts[0]) - 1):
        (a, b), (c, d) = (each[i : i + 2] for each in starts)
        slopes = alibi_slopes
        if slopes is not None and slopes.dim() == 2:
            slopes = slopes[i : i + 1]
        found.append(
            flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d], dropout_p, softmax_scale,
                            causal, window_size, softcap, slopes)[0]
        )  # fmt: skip
    return torch.cat(found)


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
    cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
    return_softmax_lse=False,
):  # fmt: skip
    lengths = [k_cache.shape[1]] * len(q) if cache_seqlens is None else cache_seqlens
    if isinstance(lengths, int):
        lengths = [lengths] * len(q)
    found = []
    for i, n in enumerate(map(int, lengths)):
        if k is not None:
            k_cache[i, n : n + k.shape[1]] = k[i]
            v_cache[i, n : n + k.shape[1]] = v[i]
            n += k.shape[1]
        slopes = alibi_slopes
        if slopes is not None and slopes.dim() == 2:
            slopes = slopes[i : i + 1]
        one = slice(i, i + 1)
        found.append(
            flash_attn_func(q[one], k_cache[one, :n], v_cache[one, :n], 0.0, softmax_scale,
                            causal, window_size, softcap, slopes)
        )  # fmt: skip
    return torch.cat(found)
