"""Operators of onnxruntime's that were measured no faster than what hx writes: `bench.py` runs it.

Each stands here as a function with its converter, beside the same function without.
"""

from __future__ import annotations

import torch
from hx_ort.converters import DOMAIN
from torch import nn
from torch.nn import functional as F

import hx
from hx import Registry


def with_past(q, k, v, past_k, past_v):
    """Attention of [batch, length, heads, width] after what is kept, [batch, heads, length, width]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    y = F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
    return y.transpose(1, 2), k, v


def _flat(op, x):
    return op.Reshape(x, op.sizes([*x.shape[:2], x.shape[2] * x.shape[3]]))


def _kept(op, name, q, k, v, past_k, past_v, *more, **attributes):
    batch, length, heads, width = q.shape
    shape = [batch, past_k.shape[1], past_k.shape[2] + length, width]
    results = [(q.dtype, [batch, length, heads * width]), (q.dtype, shape), (q.dtype, shape)]
    y, k, v = op(DOMAIN, name, *(_flat(op, x) for x in (q, k, v)), *more, num_heads=heads,
                 outputs=3, results=results, version=1, **attributes)  # fmt: skip
    return op.Reshape(y, op.sizes([batch, length, heads, width])), k, v


@hx.converter("left_out.with_past")
def multi_head(op, q, k, v, past_k, past_v):
    return _kept(
        op, "MultiHeadAttention", q, k, v, past_k, past_v, None, None, None, past_k, past_v
    )


@hx.converter("left_out.with_past")
def group_query(op, q, k, v, past_k, past_v):
    whole = op.constant(past_k.shape[2] + q.shape[1], torch.int32)
    last = op.Expand(op.Sub(whole, 1), op.sizes([q.shape[0]]))
    return _kept(op, "GroupQueryAttention", q, k, v, past_k, past_v, past_k, past_v, last, whole,
                 kv_num_heads=k.shape[2])  # fmt: skip


def added(x, residual, weight, bias):
    residual = x + residual
    return F.layer_norm(residual, weight.shape, weight, bias), residual


def added_rms(x, residual, weight):
    residual = x + residual
    return F.rms_norm(residual, weight.shape, weight, 1e-5), residual


def _skip(op, name, x, *more):
    of_rows = x.dtype, [*x.shape[:-1], 1]
    y, _, _, residual = op(DOMAIN, name, x, *more, version=1, epsilon=1e-5, outputs=4,
                           results=[(x.dtype, x.shape), of_rows, of_rows, (x.dtype, x.shape)])  # fmt: skip
    return y, residual


@hx.converter("left_out.added")
def skip(op, x, residual, weight, bias):
    return _skip(op, "SkipLayerNormalization", x, residual, weight, bias)


@hx.converter("left_out.added_rms")
def skip_rms(op, x, residual, weight):
    return _skip(op, "SkipSimplifiedLayerNormalization", x, residual, weight)


@hx.converter("torch.nn.functional.gelu")
def fast_gelu(op, input, approximate="none"):
    return op(DOMAIN, "FastGelu", input, version=1, results=[(input.dtype, input.shape)])


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


class Residuals(nn.Module):
    """Eight times what stands between the layers of a transformer."""

    def __init__(self, function, width, parameters):
        super().__init__()
        self.function = function
        self.given = nn.ParameterList(torch.rand(width) for _ in range(parameters))

    def forward(self, x):
        residual = x
        for _ in range(8):
            x, residual = self.function(x, residual, *self.given)
        return x, residual


def main(show) -> None:
    for kernel, opset, (heads, shared) in [
        (multi_head, 20, (12, 12)), (group_query, 20, (12, 12)), (group_query, 20, (32, 8)),
        (group_query, 23, (32, 8)),
    ]:  # fmt: skip
        for before in (128, 1024):
            q = torch.randn(1, 1, heads, 64)
            k, v = (torch.randn(1, 1, shared, 64) for _ in "kv")
            past = (torch.randn(1, shared, before, 64) for _ in "kv")
            what = f"{kernel.__name__}, {heads} heads to {shared}, 1 after {before}, opset {opset}"
            _beside(show, what, Call(with_past), kernel, (q, k, v, *past), opset)
    for rows in (1, 128):
        for width in (768, 4096):
            x = torch.randn(1, rows, width)
            what = f"x {rows} x {width}"
            _beside(show, f"SkipLayerNormalization {what}", Residuals(added, width, 2), skip, (x,))
            _beside(show, f"SkipSimplifiedLayerNormalization {what}",
                    Residuals(added_rms, width, 1), skip_rms, (x,))  # fmt: skip
        gelu = Call(lambda x: F.gelu(x, approximate="tanh") + 1)
        for opset in (17, 20):
            _beside(show, f"FastGelu {rows} x 3072, opset {opset}", gelu, fast_gelu,
                    (torch.randn(1, rows, 3072),), opset)  # fmt: skip


def _beside(show, what, model, kernel, args, opset=20):
    packs = Registry.installed()
    packs.add(kernel)
    show(what, model, model, args, {"opset": opset}, packs=packs, opset=opset)
