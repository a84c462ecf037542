"""flash-attn: attention over tensors of shape [batch, length, heads, width], or over packed ones."""

import math

from hx import case, converter
from hx.lazy import torch

Q, K = "float32[b,s,4,8]", "float32[b,s,4,8]"
FEWER = "float32[b,t,2,8]"  # heads of keys and values


@converter("flash_attn.flash_attn_func", cases=[
    case(Q, K, K),
    case(Q, K, K, causal=True),
    case("float32[b,s,4,8]", FEWER, FEWER, softmax_scale=0.3, name="fewer heads"),
    case("float32[b,3,4,8]", FEWER, FEWER, causal=True, name="causal, ends together"),
    case("float32[b,9,4,8]", FEWER, FEWER, causal=True, name="causal, some see nothing"),
    case(Q, FEWER, FEWER, window_size=(2, 1), name="window"),
    case(Q, K, K, softcap=5.0, causal=True),
    case(Q, FEWER, FEWER, alibi_slopes="float32[4]<1", name="alibi"),
    case(Q, K, K, alibi_slopes="float32[b,4]<1", causal=True, name="alibi by batch"),
])  # fmt: skip
def flash_attn_func(
    op, q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    _only_output(op, dropout_p, return_attn_probs)
    queries, keys = q.shape[1], k.shape[1]
    how = _scale(q, softmax_scale), softcap
    if op.opset >= 23 and not softcap and alibi_slopes is None and _whole(window_size):
        if not causal or op.same(queries, keys):
            return _as_operator(op, q, k, v, how[0], causal)
    # The last query stands beside the last key.
    at = op.Add(_counted(op, queries), op.constant(keys - queries))
    mask, bias = _seen(op, at, _counted(op, keys), causal, window_size, alibi_slopes)
    return _turned(op, _attention(op, *(_turned(op, x) for x in (q, k, v)), *how, mask, bias))


@converter("flash_attn.flash_attn_qkvpacked_func", cases=[
    case("float32[b,s,3,4,8]"), case("float32[b,s,3,4,8]", causal=True),
    case("float32[b,s,3,4,8]", softmax_scale=0.2, window_size=(2, 0), softcap=3.0,
         alibi_slopes="float32[4]<1", name="all of it"),
])  # fmt: skip
def flash_attn_qkvpacked_func(op, qkv, *args, **kwargs):
    return flash_attn_func(op, *_unpacked(op, qkv, 3), *args, **kwargs)


@converter("flash_attn.flash_attn_kvpacked_func", cases=[
    case(Q, "float32[b,t,2,2,8]"), case(Q, "float32[b,t,2,2,8]", causal=True),
])  # fmt: skip
def flash_attn_kvpacked_func(op, q, kv, *args, **kwargs):
    return flash_attn_func(op, q, *_unpacked(op, kv, 2), *args, **kwargs)


PACKED = ["float32[10,4,8]", "float32[12,2,8]", "float32[12,2,8]"]
STARTS = [lambda: torch.tensor([0, 3, 7, 10]).int(), lambda: torch.tensor([0, 2, 8, 12]).int()]


@converter("flash_attn.flash_attn_varlen_func", cases=[
    case(*PACKED, *STARTS, 4, 6),
    case(*PACKED, *STARTS, 4, 6, causal=True, softcap=4.0),
    case(*PACKED, *STARTS, 4, 6, window_size=(1, 1), alibi_slopes="float32[3,4]<1"),
])  # fmt: skip
def flash_attn_varlen_func(
    op, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False, block_table=None,
):  # fmt: skip
    """Sequences one behind the other: all of them at once, of which each sees its own."""
    _only_output(op, dropout_p, return_attn_probs)
    if block_table is not None:
        op.refuse("keys and values in pages have no ONNX form", "call it without block_table")
    mine, at_query, length_q = _places(op, cu_seqlens_q, q.shape[0])
    theirs, at_key, length_k = _places(op, cu_seqlens_k, k.shape[0])
    behind = op.Gather(op.Sub(length_k, length_q), mine)
    slopes = alibi_slopes
    if slopes is not None and slopes.rank == 2:  # each sequence has its own: [heads, queries, 1]
        slopes = op.Unsqueeze(op.Transpose(op.Gather(slopes, mine), perm=[1, 0]), [2])
    elif slopes is not None:
        slopes = op.Unsqueeze(slopes, [1, 2])
    mask, bias = _seen(op, op.Add(at_query, behind), at_key, causal, window_size, slopes, True)
    same = op.Equal(op.Unsqueeze(mine, [1]), theirs)
    mask = same if mask is None else op.And(same, mask)
    q, k, v = (_turned(op, op.Unsqueeze(x, [0])) for x in (q, k, v))
    y = _attention(op, q, k, v, _scale(q, softmax_scale), softcap, mask, bias)
    return op.Squeeze(_turned(op, y), [0])


CACHE = "float32[b,t,2,8]"


@converter("flash_attn.flash_attn_with_kvcache", cases=[
    case(Q, CACHE, CACHE, name="all of it"),
    case("float32[2,s,4,8]", "float32[2,7,2,8]", "float32[2,7,2,8]", causal=True,
         cache_seqlens=lambda: torch.tensor([3, 1]).int(), name="the first of each"),
    case("float32[2,2,4,8]", "float32[2,7,2,8]", "float32[2,7,2,8]", "float32[2,2,2,8]",
         "float32[2,2,2,8]", cache_seqlens=lambda: torch.tensor([3, 0]).int(), causal=True,
         name="and what is new"),
    case("float32[b,1,4,8]", "float32[b,5,2,8]", "float32[b,5,2,8]", cache_seqlens=3,
         window_size=(1, 0), softcap=4.0, alibi_slopes="float32[4]<1", name="a window"),
])  # fmt: skip
def flash_attn_with_kvcache(
    op, q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
    cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
    return_softmax_lse=False,
):  # fmt: skip
    """Attention to as many of the keys and values that are kept as each sequence has.

    New ones are first written behind those, in place.
    """
    for x, name in (
        (rotary_cos, "rotary_cos"), (cache_batch_idx, "cache_batch_idx"),
        (cache_leftpad, "cache_leftpad"), (block_table, "block_table"),
    ):  # fmt: skip
        if x is not None:
            op.refuse(f"{name} has no ONNX form here", f"call it without {name}")
    if return_softmax_lse:
        op.refuse("the sum of the scores is not computed", "do not ask for it")
    batch, kept = k_cache.shape[:2]
    if cache_seqlens is None:
        before = op.Expand(op.constant(kept), op.sizes([batch]))
    elif isinstance(cache_seqlens, int):
        before = op.Expand(op.constant(cache_seqlens), op.sizes([batch]))
    else:
        before = op.cast(cache_seqlens, torch.int64)
    places = _counted(op, kept)
    if k is not None:
        k_cache, v_cache = (
            _written(op, *pair, before, places) for pair in ((k_cache, k), (v_cache, v))
        )
        before = op.Add(before, op.constant(k.shape[1]))
    # Of each sequence, [batch, 1, queries or 1, keys]: the last query stands beside its last key.
    ends = op.Unsqueeze(before, [1, 2, 3])
    at = op.Add(op.Sub(ends, op.constant(q.shape[1])), op.Unsqueeze(_counted(op, q.shape[1]), [1]))
    slopes = alibi_slopes
    if slopes is not None:
        slopes = op.Unsqueeze(slopes, [slopes.rank, slopes.rank + 1])
    left, right = window_size
    ahead = op.Sub(places, at)
    mask = op.Less(places, ends)
    if causal or right >= 0:
        mask = op.And(mask, op.LessOrEqual(ahead, 0 if causal else right))
    if left >= 0:
        mask = op.And(mask, op.GreaterOrEqual(ahead, -left))
    bias = None if slopes is None else _farther(op, slopes, ahead)
    q, k, v = (_turned(op, x) for x in (q, k_cache, v_cache))
    return _turned(op, _attention(op, q, k, v, _scale(q, softmax_scale), softcap, mask, bias))


def _written(op, cache, new, before, places):
    """The cache with what is new behind what each sequence has."""
    at = op.Sub(places, op.Unsqueeze(before, [1]))  # [batch, kept]: which of the new ones it gets
    count = op.constant(new.shape[1])
    here = op.And(op.GreaterOrEqual(at, 0), op.Less(at, count))
    row = op.Unsqueeze(op.Min(op.Max(at, 0), op.Sub(count, 1)), [2, 3])
    row = op.Expand(row, op.sizes(cache.shape))
    moved = op.GatherElements(op.cast(new, cache.dtype), row, axis=1)
    filled = op.Where(op.Unsqueeze(here, [2, 3]), moved, cache)
    op.assign(cache, filled)
    return filled


def _farther(op, slopes, ahead):
    far = op.cast(op.Abs(ahead), torch.float32)
    return op.Mul(op.Neg(op.cast(slopes, torch.float32)), far)


def _only_output(op, dropout_p, return_attn_probs):
    if dropout_p:
        op.refuse("attention drops out", "pass dropout_p=0.0 when not training")
    if return_attn_probs:
        op.refuse("flash-attn's own probabilities are for its tests", "do not ask for them")


def _scale(q, softmax_scale):
    return q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale


def _whole(window_size):
    return tuple(window_size) == (-1, -1)


def _turned(op, x):
    """[batch, length, heads, width] to [batch, heads, length, width], and back."""
    return op.Transpose(x, perm=[0, 2, 1, 3])


def _unpacked(op, x, count):
    parts = op.Split(x, axis=2, num_outputs=count, outputs=count)
    return [op.Squeeze(part, [2]) for part in parts]


def _counted(op, count):
    return op.Range(0, op.constant(count), 1)


def _places(op, starts, total):
    """Of each token its sequence and its place in it; and the length of each sequence."""
    starts = op.cast(starts, torch.int64)
    first, end = op.Slice(starts, [0], [-1], [0]), op.Slice(starts, [1], [2**31], [0])
    tokens = _counted(op, total)
    passed = op.LessOrEqual(end, op.Unsqueeze(tokens, [1]))
    sequence = op.ReduceSum(op.cast(passed, torch.int64), [1], keepdims=0)
    return sequence, op.Sub(tokens, op.Gather(first, sequence)), op.Sub(end, first)


def _seen(op, at_query, at_key, causal, window_size, slopes, shaped=False):
    """Which keys a query sees, [queries, keys], and by how much the far ones count less."""
    left, right = window_size
    right = 0 if causal else right
    ahead = op.Sub(at_key, op.Unsqueeze(at_query, [1]))
    parts = []
    if right >= 0:
        parts.append(op.LessOrEqual(ahead, right))
    if left >= 0:
        parts.append(op.GreaterOrEqual(ahead, -left))
    mask = op.And(*parts) if len(parts) == 2 else parts[0] if parts else None
    if slopes is None:
        return mask, None
    if not shaped:
        slopes = op.Unsqueeze(slopes, [slopes.rank, slopes.rank + 1])
    return mask, _farther(op, slopes, ahead)


def _attention(op, q, k, v, scale, softcap, mask, bias):
    """In float32, as the kernel has it; a query that sees nothing gives zeros."""
    dtype = q.dtype
    q, k, v = (op.cast(x, torch.float32) for x in (q, k, v))
    k, v = (_repeated(op, x, q) for x in (k, v))
    scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), float(scale))
    if softcap:
        scores = op.Mul(op.Tanh(op.Div(scores, float(softcap))), float(softcap))
    if bias is not None:
        scores = op.Add(scores, bias)
    if mask is None:
        return op.cast(op.MatMul(op.Softmax(scores, axis=-1), v), dtype)
    weights = op.Softmax(op.Where(mask, scores, -math.inf), axis=-1)
    return op.cast(op.MatMul(op.Where(mask, weights, 0.0), v), dtype)


def _repeated(op, x, q):
    """Each head of keys and values stands for several heads of queries."""
    batch, heads, length, width = x.shape
    times = q.shape[1] // heads
    wide = op.Expand(op.Unsqueeze(x, [2]), op.sizes([batch, heads, times, length, width]))
    return op.Reshape(wide, op.sizes([batch, heads * times, length, width]))


def _as_operator(op, q, k, v, scale, causal):
    q, k, v = (_turned(op, x) for x in (q, k, v))
    return _turned(op, op.Attention(q, k, v, is_causal=int(causal), scale=float(scale)))
