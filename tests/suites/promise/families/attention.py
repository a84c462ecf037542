"""Attention and its masks: hidden rows, causal, padding, relative positions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(q="float[b,n,8]", k="float[b,m,8]", v="float[b,m,8]", most=257)
def plain_scores(q, k, v):
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v


@model(q="float[b,n,8]", k="float[b,m,8]", v="float[b,m,8]", most=257)
def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@model(x="float[b,n,8]", most=257)
def fused_causal(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@model(q="float[b,n,8]", k="float[b,m,8]", most=257)
def fused_causal_of_two(q, k):
    return F.scaled_dot_product_attention(q, k, k, is_causal=True)


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
def fused_with_padding(x, m):
    return F.scaled_dot_product_attention(x, x, x, attn_mask=m[:, None, :])


@model(x="float[b,n,8]", m="bool[b,n]", most=257)
def hidden_rows_are_nan(x, m):
    scores = (x @ x.mT).masked_fill(~m[:, None, :], float("-inf"))
    return scores.softmax(-1) @ x


@model(x="float[b,n,8]", m="bool[b,n]", most=257)
def hidden_rows_are_zero(x, m):
    scores = (x @ x.mT).masked_fill(~m[:, None, :], float("-inf"))
    return scores.softmax(-1).nan_to_num() @ x


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
def additive_large_negative(x, m):
    bias = (1.0 - m[:, None, :].float()) * -10000.0
    return ((x @ x.mT) / 8**0.5 + bias).softmax(-1) @ x


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
def additive_smallest(x, m):
    bias = torch.zeros(m.shape).masked_fill(~m, torch.finfo(x.dtype).min)
    return ((x @ x.mT) * 0.3 + bias[:, None]).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
def causal_by_triu(x):
    n = x.shape[1]
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    return (x @ x.mT).masked_fill(mask, float("-inf")).softmax(-1) @ x


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
def causal_and_padding(x, m):
    n = x.shape[1]
    seen = torch.tril(torch.ones(n, n, dtype=torch.bool)) & m[:, None, :]
    return (x @ x.mT).masked_fill(~seen, -1e4).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
class CausalBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).bool())

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / 8**0.5
        return scores.masked_fill(~self.mask[:n, :n], float("-inf")).softmax(-1) @ v


@model(x="float[b,n,8]", most=257)
class CausalBufferGrows(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.tril(torch.ones(16, 16)).bool()

    def forward(self, x):
        n = x.shape[1]
        if n > self.mask.shape[0]:
            self.mask = torch.tril(torch.ones(n, n)).bool()
        return (x @ x.mT).masked_fill(~self.mask[:n, :n], -1e9).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
class MultiHeadPadded(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, m):
        return self.attention(x, x, x, key_padding_mask=~m, need_weights=False)[0]


@model(x="float[b,n,8]", most=257)
class MultiHeadCausal(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.attention(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)[0]


@model(x="float[b,n,8]", most=257)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
class EncoderPadded(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x, m):
        return self.encoder(x, src_key_padding_mask=~m) * m[..., None]


@model(x="float[b,n,8]", y="float[b,m,8]", most=131)
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x, y):
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        return self.layer(x, y, tgt_mask=mask)


@model(x="float[b,n,8]", most=257)
class RelativeBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2 * 8 + 1))

    def forward(self, x):
        at = torch.arange(x.shape[1])
        distance = (at[:, None] - at[None]).clamp(-8, 8) + 8
        return ((x @ x.mT) + self.table[distance]).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
class BucketedDistance(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 1)

    def forward(self, x):
        n = x.shape[1]
        distance = torch.arange(n)[None] - torch.arange(n)[:, None]
        side = (distance > 0).long() * 8
        far = distance.abs()
        large = 4 + (torch.log(far.float() / 4) / math.log(128 / 4) * 4).clamp(min=0).long()
        bucket = side + torch.where(far < 4, far, large.clamp(max=7))
        return ((x @ x.mT) + self.table(bucket)[..., 0]).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
def alibi(x):
    n = x.shape[1]
    slopes = torch.tensor([0.5, 0.25])
    at = torch.arange(n)
    bias = -(at[None] - at[:, None]).abs() * slopes[:, None, None]
    heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return ((heads @ heads.mT) + bias).softmax(-1) @ heads


@model(x="float[b,n,8]", most=257)
def rotary(x):
    n = x.shape[1]
    angle = torch.arange(n)[:, None] / 100 ** (torch.arange(4) / 4)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :4], x[..., 4:]
    q = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return (q @ q.mT).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
class RotaryCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.cached = None

    def forward(self, x):
        n = x.shape[1]
        if self.cached is None or self.cached.shape[0] < n:
            self.cached = torch.outer(torch.arange(n), 1 / 50 ** (torch.arange(8) / 8)).cos()
        return x * self.cached[:n]


@model(x="float[b,n,8]", most=257)
def local_window(x):
    at = torch.arange(x.shape[1])
    near = (at[:, None] - at[None]).abs() <= 3
    return (x @ x.mT).masked_fill(~near, float("-inf")).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
def blocks_of_four(x):
    b, n, c = x.shape
    pad = -n % 4
    y = F.pad(x, (0, 0, 0, pad)).view(b, -1, 4, c)
    return ((y @ y.mT).softmax(-1) @ y).reshape(b, -1, c)[:, :n]


@model(x="float[b,n,8]", past="float[b,m,8]", most=131)
def with_past(x, past):
    k = torch.cat([past, x], 1)
    n, s = x.shape[1], k.shape[1]
    seen = torch.ones(n, s, dtype=torch.bool).tril(s - n)
    return (x @ k.mT).masked_fill(~seen, float("-inf")).softmax(-1) @ k, k


@model(x="float[b,n,8]", most=257)
def linear_attention(x):
    q, k = F.elu(x) + 1, F.elu(x) + 1
    return q @ (k.mT @ x) / (q @ k.sum(1)[..., None] + 1e-3)


@model(x="float[b,n,8]", most=257)
def top_scores_only(x):
    scores = x @ x.mT
    k = min(4, x.shape[1])
    least = scores.topk(k, -1).values[..., -1:]
    return scores.masked_fill(scores < least, float("-inf")).softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
def grouped_heads(x):
    q = x.unflatten(-1, (4, 2)).transpose(1, 2)
    k = x[..., :4].unflatten(-1, (2, 2)).transpose(1, 2).repeat_interleave(2, 1)
    return F.scaled_dot_product_attention(q, k, k).transpose(1, 2).flatten(2)


@model(x="float[b,n,8]", most=257)
def relative_shift(x):
    b, n, _ = x.shape
    table = torch.linspace(-1, 1, 2 * n - 1)[:, None] * torch.ones(8)
    scores = F.pad(x @ table.t(), (1, 0)).view(b, 2 * n, n)[:, 1:].reshape(b, n, 2 * n - 1)
    return scores[..., :n].softmax(-1) @ x


@model(x="float[b,n,8]", most=257)
class PositionTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 128, 8))

    def forward(self, x):
        return x + self.positions[:, : x.shape[1]]


@model(x="float[b,n,8]", most=257)
class PositionEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(128, 8)

    def forward(self, x):
        return x + self.positions(torch.arange(x.shape[1]))[None]


@model(x="float[b,n,8]", m="padding[b,n]", most=257)
def pooled_by_attention(x, m):
    score = x.sum(-1).masked_fill(~m, torch.finfo(x.dtype).min)
    return (score.softmax(-1)[..., None] * x).sum(1)


@model(x="float[b,n,8]", s="int[b,n]<3", most=257)
def segments_only(x, s):
    same = s[:, :, None] == s[:, None, :]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=same)
