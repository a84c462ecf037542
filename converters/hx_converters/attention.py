"""Attention: scaled dot products, and the module around them."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import reshaped
from ._halves import rounded_once
from .linear import linear

_QKV = ("float32[n,2,s,4]",) * 3


@converter(
    "torch.nn.functional.scaled_dot_product_attention",
    cases=[
        case(*_QKV),
        case(*_QKV, is_causal=True),
        case("float32[n,2,3,4]", "float32[n,2,5,4]", "float32[n,2,5,4]", "bool[3,5]"),
        case("float32[n,2,3,4]", "float32[n,2,5,4]", "float32[n,2,5,4]", "float32[n,1,3,5]"),
        case("float32[n,6,3,4]", "float32[n,2,5,4]", "float32[n,2,5,7]", enable_gqa=True),
        case("float32[n,6,s,4]", *("float32[n,2,t,4]",) * 2, "bool[n,1,s,t]", enable_gqa=True),
        case("float32[n,4,s,4]", *("float32[n,2,s,4]",) * 2, is_causal=True, enable_gqa=True),
        case("float32[n,2,s,4]", "float32[n,2,t,4]", "float32[n,2,t,4]", is_causal=True, scale=0.3),
        case("float32[3,4]", "float32[5,4]", "float32[5,4]"),
    ],
)
@rounded_once
def scaled_dot_product_attention(op, query, key, value, attn_mask=None, dropout_p=0.0,
                                 is_causal=False, scale=None, enable_gqa=False):  # fmt: skip
    return attended(op, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def attended(op, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
             enable_gqa=False, unseeing=0.0):  # fmt: skip
    """Return the values that queries attend to; times `unseeing`, if a query sees no key."""
    if dropout_p:
        op.refuse("attention drops out although the model is in eval mode",
                  "pass dropout_p=0.0 when not training")  # fmt: skip
    if not enable_gqa:
        key, value, enable_gqa = _uncopied(op, query, key, value)
    one_node = _in_one_node(op, query, key, value, attn_mask, scale)
    groups = 1
    if enable_gqa and not one_node:
        groups = _groups(query, key, value)
        if groups is None:
            groups, key, value = 1, _repeated(op, key, query), _repeated(op, value, query)
    if one_node and is_causal and op.same(query.shape[-2], key.shape[-2]):
        return op.Attention(query, key, value, is_causal=1, scale=scale)
    bias, sees = None, None
    if is_causal:
        ones = op.Expand(op.constant(True), op.sizes([query.shape[-2], key.shape[-2]]))
        bias = _bias(op, op.Trilu(ones, upper=0), query.dtype)
    if attn_mask is not None:
        bias = _bias(op, attn_mask, query.dtype)
        if not _sees_something(op, attn_mask):
            bias, sees = _guarded(op, bias, unseeing)
    if one_node:
        y = op.Attention(query, key, value, bias, scale=scale)
    else:
        rows = _heads_as_rows(op, query, groups)
        y = op.MatMul(_weights(op, rows, key, bias, scale, groups), value)
        y = _rows_as_heads(op, y, groups)
    return y if sees is None else op.Mul(y, sees)


def _in_one_node(op, query, key, value, mask, scale):
    """Return whether ONNX's Attention (opset 23 and later) fits, and onnxruntime runs it."""
    if op.opset < 23 or query.dtype != torch.float32 or type(scale) not in (int, float, type(None)):
        return False
    alike = all(x.rank == 4 and op.same(x.shape[0], query.shape[0]) for x in (query, key, value))
    sizes = (query.shape[-2], key.shape[-2])
    whole = mask is None or (mask.rank > 1 and op.same(mask.shape[-2:], sizes))
    return alike and whole


def _uncopied(op, query, key, value):
    """Return keys and values before a model copied their heads for grouped queries.

    Also returns whether it did copy them."""
    few = [_before_copies(op, x) for x in (key, value)]
    if any(x is None for x in few) or not op.same(few[0].shape[1], few[1].shape[1]):
        return key, value, False
    alike = all(x.rank == 4 and op.same(x.shape[1], key.shape[1]) for x in (query, value))
    return (*few, True) if alike else (key, value, False)


def _before_copies(op, x):
    """Return the [n, heads, length, width] of which `x` repeats each head, one after the other."""
    steps = [x]
    for name in ("Reshape", "Expand", "Unsqueeze"):
        node = steps[-1].node
        if node is None or node.domain or node.op != name:
            return None
        steps.append(node.inputs[0])
    x, copies, one, few = (each.shape for each in steps)
    if few is None or copies is None or (len(few), len(copies)) != (4, 5):
        return None
    n, heads, length, width = few
    times = copies[2]
    expected = (n, heads, 1, length, width), (n, heads, times, length, width)
    alike = all(map(op.same, (one, copies), expected))
    return steps[-1] if alike and op.same(x, (n, heads * times, length, width)) else None


def _groups(query, key, value):
    """Return the number of query heads per key and value head; None if it is not known."""
    heads = [x.shape[-3] if x.rank == 4 else None for x in (query, key, value)]
    fits = all(type(n) is int for n in heads) and heads[1] == heads[2]
    return heads[0] // heads[1] if fits else None


def _heads_as_rows(op, x, groups):
    """Reshape [n, heads, length, width] to [n, heads / groups, groups * length, width].

    So keys need no copies, which would be larger than the product."""
    if groups == 1:
        return x
    n, heads, length, width = x.shape
    return op.Reshape(x, op.sizes([n, heads // groups, groups * length, width]))


def _rows_as_heads(op, x, groups):
    if groups == 1:
        return x
    n, heads, rows, width = x.shape
    return op.Reshape(x, op.sizes([n, heads * groups, rows // groups, width]))


def _weights(op, query, key, bias, scale=None, groups=1):
    """Return the attention weights of each query over the keys."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    axes = list(range(key.rank))
    axes[-2:] = axes[-1], axes[-2]
    key = op.Transpose(key, perm=axes)
    if query.dtype in (torch.float16, torch.bfloat16):
        # Both sides get the root of the factor, as in PyTorch, so that half floats keep range.
        root = factor**0.5 if not isinstance(factor, float) else math.sqrt(factor)
        scores = op.MatMul(op.Mul(query, root), op.Mul(key, root))
    else:
        scores = op.MatMul(op.Mul(query, factor), key)
    if bias is None:
        return op.Softmax(scores, axis=-1)
    biased = op.Add(_rows_as_heads(op, scores, groups), bias)
    return _heads_as_rows(op, op.Softmax(biased, axis=-1), groups)


def _bias(op, mask, dtype):
    """Return a mask as a bias to add to the scores; all layers share it, and it is made once."""
    if mask.dtype != torch.bool:
        return op.cast(mask, dtype)
    return op.Where(mask, op.constant(0.0, dtype), op.constant(-math.inf, dtype))


def _sees_something(op, mask):
    """Return whether every query is known to see some key."""
    known = op.contents(mask)
    if known is None:
        return False
    seen = known if known.dtype == torch.bool else known != -math.inf
    return bool(seen.any(-1).all())


def _guarded(op, bias, unseeing):
    """Return a bias without rows that see nothing, and a factor that is `unseeing` for those rows.

    PyTorch gives zeros, not NaN, for a query that sees nothing, but for its fused module.
    """
    nothing = op.Equal(op.ReduceMax(bias, [-1]), -math.inf)
    if unseeing == 0:
        return op.Where(nothing, 0, bias), op.cast(op.Not(nothing), bias.dtype)
    return op.Where(nothing, 0, bias), op.Where(nothing, op.constant(unseeing, bias.dtype), 1)


def _repeated(op, x, query):
    """Repeat each head of keys and values for the heads of queries that share it."""
    heads, wanted = x.shape[-3], query.shape[-3]
    times = wanted // heads
    if type(times) is int and times == 1:
        return x
    lead, (length, width) = list(x.shape[:-3]), x.shape[-2:]
    wide = op.Expand(op.Unsqueeze(x, [-3]), op.sizes([*lead, heads, times, length, width]))
    return op.Reshape(wide, op.sizes([*lead, wanted, length, width]))


_FIRST = {"batch_first": True}


@converter(
    "torch.nn.MultiheadAttention.forward",
    cases=[
        case(*("float32[n,s,8]",) * 3, init=(8, 2), init_kwargs=_FIRST),
        case("float32[5,n,8]", "float32[s,n,8]", "float32[s,n,8]", init=(8, 2)),
        case(*("float32[n,5,8]",) * 3, "bool[n,5]", need_weights=False, init=(8, 2), init_kwargs=_FIRST),
        case(*("float32[n,5,8]",) * 3, None, False, "bool[5,5]", init=(8, 2), init_kwargs=_FIRST),
        case("float32[n,5,8]", "float32[n,3,6]", "float32[n,3,4]", init=(8, 2),
             init_kwargs={**_FIRST, "kdim": 6, "vdim": 4}),
    ],
)  # fmt: skip
def multi_head_attention(op, self, query, key, value, key_padding_mask=None, need_weights=True,
                         attn_mask=None, average_attn_weights=True, is_causal=False):  # fmt: skip
    plain = self.bias_k is None and not self.add_zero_attn and not (self.training and self.dropout)
    if query.rank != 3 or not plain or _computes_weights(self):
        return NotImplemented
    batch, length = (0, 1) if self.batch_first else (1, 0)
    heads, width = self.num_heads, self.head_dim

    def by_head(x):
        x = reshaped(op, x, [*x.shape[:2], heads, width])
        return op.Transpose(x, perm=[batch, 2, length, 3])

    q, k, v = map(by_head, _projected(op, self, query, key, value))
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = _merged_mask(op, q, k, key_padding_mask, None if causal else attn_mask)
    if need_weights:
        weights = _weights(op, q, k, mask)
        y = op.MatMul(weights, v)
        weights = op.ReduceMean(weights, [1], keepdims=0) if average_attn_weights else weights
    else:
        fused = _is_fused(self, query, key, value, key_padding_mask, attn_mask)
        unseeing = math.nan if fused else 0.0
        y, weights = attended(op, q, k, v, mask, is_causal=causal, unseeing=unseeing), None
    y = op.Transpose(y, perm=[0, 2, 1, 3] if self.batch_first else [2, 0, 1, 3])
    y = reshaped(op, y, [*query.shape[:2], heads * width])
    return linear(op, y, op.value(self.out_proj.weight), _value(op, self.out_proj.bias)), weights


def _is_fused(self, query, key, value, *masks):
    """Return whether PyTorch calls its fused kernel, which gives NaN to a query that sees nothing."""
    alike = query is key is value and self.in_proj_weight is not None
    plain = self.batch_first and not self.training and self.num_heads % 2 == 0
    biased = self.in_proj_bias is not None and query.dtype == self.in_proj_bias.dtype
    masked = all(mask is None or mask.dtype == torch.bool for mask in masks)
    on = torch.backends.mha.get_fastpath_enabled() and not torch.is_autocast_enabled()
    return alike and plain and biased and masked and on


def _computes_weights(self):
    """Return whether the weights are parametrized, that is, computed when they are read."""
    asks = torch.nn.utils.parametrize.is_parametrized
    return asks(self) or asks(self.out_proj)


def _value(op, x):
    return None if x is None else op.value(x)


def _projected(op, self, query, key, value):
    """Project queries, keys and values, in one product if they are the same tensor."""
    biases = [None] * 3
    if self.in_proj_bias is not None:
        biases = op.Split(self.in_proj_bias, axis=0, num_outputs=3, outputs=3)
    if self.in_proj_weight is None:
        weights = map(op.value, (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight))
    elif query is key and key is value:
        packed = linear(op, query, op.value(self.in_proj_weight), _value(op, self.in_proj_bias))
        return op.Split(packed, [self.embed_dim] * 3, axis=-1, outputs=3)
    else:
        weights = op.Split(self.in_proj_weight, axis=0, num_outputs=3, outputs=3)
    return [linear(op, *each) for each in zip((query, key, value), weights, biases)]


def _merged_mask(op, q, k, padding, mask):
    """Return the bias for padding and mask; in modules, True marks a key that is not seen."""
    n, heads, length = q.shape[:3]
    parts = []
    if padding is not None:
        parts.append(op.Unsqueeze(_hidden(op, padding, q.dtype), [1, 2]))
    if mask is not None:
        hidden = _hidden(op, mask, q.dtype)
        parts.append(hidden if mask.rank == 2 else
                     reshaped(op, hidden, [n, heads, length, k.shape[2]]))  # fmt: skip
    return op.Add(*parts) if len(parts) == 2 else parts[0] if parts else None


def _hidden(op, mask, dtype):
    if mask.dtype != torch.bool:
        return op.cast(mask, dtype)
    return op.Where(mask, op.constant(-math.inf, dtype), op.constant(0.0, dtype))


# Masks that PyTorch stores as two numbers. See tests/converters/test_attention.py.


@converter("torch.nn.attention.bias.causal_upper_left", cases=[])
def causal_upper_left(op, *size):
    return op.instead(lambda *size: torch.ones(size, dtype=torch.bool).tril())


@converter("torch.nn.attention.bias.causal_lower_right", cases=[])
def causal_lower_right(op, *size):
    return op.instead(lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(k - q))
