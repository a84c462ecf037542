"""Attention, decoders, caches and recurrent layers, as projects write them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


class RotaryTable(nn.Module):
    def __init__(self, dim=4, length=8):
        super().__init__()
        inverse = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inverse", inverse)
        self._grow(length)

    def _grow(self, length):
        self.length = length
        freqs = torch.outer(torch.arange(length).float(), self.inverse)
        emb = torch.cat((freqs, freqs), -1)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, n):
        if n > self.length:
            self._grow(n)
        return self.cos_cached[:n], self.sin_cached[:n]


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), -1)


@model(x="float[b,n,8]", most=100)
class RotaryGrowing(nn.Module):
    """The table of angles grows with the longest sequence."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.rotary = RotaryTable()

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
        cos, sin = self.rotary(n)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, n, 8)


@model(x="float[b,n,8]", most=100)
class RotaryComplex(nn.Module):
    def __init__(self):
        super().__init__()
        freqs = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
        angles = torch.outer(torch.arange(128).float(), freqs)
        self.register_buffer("cis", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        y = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(y * self.cis[: x.shape[1]]).flatten(-2).type_as(x)


@model(x="float[b,n,8]", past="float[b,2,t,4]", most=60)
class CachedAttention(nn.Module):
    """One step with the keys and values of earlier steps."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x, past):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).split(8, -1)
        q, k, v = (each.view(b, n, 2, 4).transpose(1, 2) for each in (q, k, v))
        k = torch.cat([past, k], 2)
        v = torch.cat([past * 0.5, v], 2)
        t = k.size(2)
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))[t - n : t, :t]
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, 8)
        return self.out(y), (k, v)


@model(x="float[b=2,n=1,4]", at="int[]<6", most=1)
class StaticCache(nn.Module):
    """A cache of a fixed length, written at a position."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 6, 4))

    def forward(self, x, at):
        keys = self.keys.clone()
        keys[:, at : at + 1] = x
        mask = torch.arange(6) <= at
        scores = (x @ keys.transpose(1, 2)).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ keys


@model(x="float[b,n=10,4]", most=60)
def sliding_window(x):
    """Each row sees the three before it and itself."""
    n = x.shape[1]
    i = torch.arange(n)
    mask = (i[:, None] - i[None, :] >= 0) & (i[:, None] - i[None, :] < 4)
    scores = x @ x.transpose(1, 2) / x.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ x


@model(x="float[b,n=10,4]", most=60)
def chunked_attention(x):
    """Blocks of four, with the block before, as in local attention."""
    b, n, d = x.shape
    pad = -n % 4
    y = F.pad(x, (0, 0, 0, pad)).view(b, -1, 4, d)
    before = F.pad(y, (0, 0, 0, 0, 1, 0))[:, :-1]
    keys = torch.cat([before, y], 2)
    scores = torch.einsum("bwid,bwjd->bwij", y, keys)
    out = torch.einsum("bwij,bwjd->bwid", scores.softmax(-1), keys)
    return out.reshape(b, -1, d)[:, :n]


@model(x="float[b,n=6,8]", most=60)
class RelativePositions(nn.Module):
    """Distances in buckets that grow, as in T5."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 2)

    @staticmethod
    def bucket(relative, buckets=8, most=20):
        out = (relative < 0).long() * (buckets // 2)
        n = buckets // 2
        relative = relative.abs()
        exact = n // 2
        large = exact + (
            torch.log(relative.float() / exact) / math.log(most / exact) * (n - exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, n - 1))
        return out + torch.where(relative < exact, relative, large)

    def forward(self, x):
        b, n, _ = x.shape
        i = torch.arange(n)
        bias = self.bias(self.bucket(i[None, :] - i[:, None])).permute(2, 0, 1)
        q = x.view(b, n, 2, 4).transpose(1, 2)
        return ((q @ q.transpose(-1, -2) + bias).softmax(-1) @ q).transpose(1, 2).reshape(b, n, 8)


@model(x="float[b,n=6,4]", most=60)
class ShiftedRelative(nn.Module):
    """Relative scores by the skewing of Transformer-XL and Conformer."""

    def __init__(self):
        super().__init__()
        self.pos = nn.Linear(4, 4, bias=False)

    def positions(self, n):
        at = torch.arange(n - 1, -n, -1.0).unsqueeze(1)
        div = torch.exp(torch.arange(0, 4, 2.0) * -(math.log(10000.0) / 4))
        pe = torch.zeros(2 * n - 1, 4)
        pe[:, 0::2] = torch.sin(at * div)
        pe[:, 1::2] = torch.cos(at * div)
        return pe

    def shift(self, x):
        b, q, p = x.size()
        x = F.pad(x, (1, 0)).view(b, p + 1, q)
        return x[:, 1:].view(b, q, p)[:, :, :q]

    def forward(self, x):
        n = x.size(1)
        scores = x @ x.transpose(1, 2) + self.shift(x @ self.pos(self.positions(n)).T)
        return scores.softmax(-1) @ x


@model(x="float[b,n=6,8]", most=60)
class LinearBiases(nn.Module):
    """Slopes by head, cached by length."""

    def __init__(self):
        super().__init__()
        self.slopes = [2 ** -(8 / 2 * (i + 1)) for i in range(2)]
        self._bias = None

    @property
    def heads(self):
        return len(self.slopes)

    def bias(self, n):
        if self._bias is None or self._bias.shape[-1] < n:
            i = torch.arange(n)
            distance = -(i[None] - i[:, None]).abs()
            self._bias = torch.tensor(self.slopes).view(-1, 1, 1) * distance
        return self._bias[..., :n, :n]

    def forward(self, x):
        b, n, d = x.shape
        q = x.view(b, n, self.heads, d // self.heads).transpose(1, 2)
        return ((q @ q.mT + self.bias(n)).softmax(-1) @ q).transpose(1, 2).flatten(2)


@model(x="float[b,n,6]", lengths="lengths[b]<n", most=40)
class PackedRecurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 5, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        y, h = self.rnn(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, True, total_length=x.shape[1])
        return y, h.transpose(0, 1).reshape(x.size(0), -1)


@model(x="float[b,n,6]", h="float[2,b,5]", c="float[2,b,5]", most=40)
class StatefulRecurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, num_layers=2, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.rnn(x, (h, c))
        return {"y": y, "state": (h, c), "last": y[:, -1]}


@model(x="float[b,t=4,6]", most=24)
class RecurrentCell(nn.Module):
    """Attention over the inputs at each step of a decoder."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(12, 6)
        self.score = nn.Linear(12, 1)

    def forward(self, x):
        b, t, d = x.shape
        h, c = x.new_zeros(b, d), x.new_zeros(b, d)
        outputs, alignments = [], []
        for i in range(t):
            query = h.unsqueeze(1).expand(-1, t, -1)
            weight = self.score(torch.cat([query, x], -1)).softmax(1)
            h, c = self.cell(torch.cat([x[:, i], (weight * x).sum(1)], -1), (h, c))
            outputs.append(h)
            alignments.append(weight.squeeze(-1))
        return torch.stack(outputs, 1), torch.stack(alignments, 1)


@model(x="float[b,8]", most=40, ties=False)
class GreedyDecoder(nn.Module):
    """A fixed number of steps, and an end that is remembered."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 9)

    def forward(self, x):
        word = torch.zeros(x.shape[0], dtype=torch.long)
        done = torch.zeros_like(word, dtype=torch.bool)
        said = []
        for _ in range(5):
            x = self.cell(self.words(word), x)
            word = self.out(x).argmax(-1)
            word = torch.where(done, torch.full_like(word, 1), word)
            done = done | (word == 1)
            said.append(word)
            if done.all():
                break
        while len(said) < 5:
            said.append(torch.full_like(word, 1))
        return torch.stack(said, 1)


@model(scores="float[b,3]", step="float[b,3,7]", most=40, ties=False)
def beam_step(scores, step):
    """One step of a beam search."""
    b, k, v = step.shape
    total = scores.unsqueeze(-1) + step.log_softmax(-1)
    best, at = total.view(b, -1).topk(k, dim=-1)
    beam = torch.div(at, v, rounding_mode="floor")
    word = at % v
    states = step.gather(1, beam.unsqueeze(-1).expand(-1, -1, v))
    return best, beam, word, states


@model(x="float[b,t,5]", lengths="lengths[b]<t", most=40, ties=False)
class Viterbi(nn.Module):
    """The best labels of a conditional random field."""

    def __init__(self):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(5, 5))

    def forward(self, x, lengths):
        b, t, k = x.shape
        score = x[:, 0]
        history = []
        for i in range(1, t):
            step, at = (score.unsqueeze(2) + self.transitions + x[:, i].unsqueeze(1)).max(1)
            on = (i < lengths).unsqueeze(1)
            score = torch.where(on, step, score)
            history.append(at)
        return score.max(1).values, score.argmax(1)


@model(x="float[b,n=6,4]", d="int[b,n]<4", most=30)
def length_regulator(x, d):
    """Each row repeated by its duration, and padded to the longest."""
    rows = [row.repeat_interleave(n, 0) for row, n in zip(x, d)]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


@model(d="int[b,n]<4", most=30)
def durations_to_path(d):
    """A monotonic path of durations, as in VITS."""
    b, n = d.shape
    t = 4 * n
    ends = torch.cumsum(d, 1)
    path = (torch.arange(t)[None, None] < ends[..., None]).float()
    return path - F.pad(path, (0, 0, 1, 0))[:, :-1]


@model(x="float[b,n,4]", lengths="lengths[b]<n", most=40)
class MaskedPooling(nn.Module):
    """Means over the valid steps, and a weighted one."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    @classmethod
    def make_pad_mask(cls, lengths, most=None):
        most = int(lengths.max()) if most is None else most
        return torch.arange(most)[None] >= lengths[:, None]

    def forward(self, x, lengths):
        pad = self.make_pad_mask(lengths, x.size(1))
        weight = self.score(x).squeeze(-1).masked_fill(pad, -1e9).softmax(-1)
        mean = x.masked_fill(pad[..., None], 0).sum(1) / lengths[:, None]
        return mean, (weight[..., None] * x).sum(1)


@model(x="float[b,n,4]", lengths="lengths[b]<n", most=40)
def cut_to_longest(x, lengths):
    """Only as many steps as the longest row has."""
    most = lengths.max()
    x = x[:, :most]
    mask = torch.arange(most).expand(len(lengths), most) < lengths.unsqueeze(1)
    return x * mask.unsqueeze(-1)


@model(x="float[b,n,4]", lengths="lengths[b]<n", most=24)
def ragged_means(x, lengths):
    """One mean per row, in a loop over lengths."""
    return torch.stack([x[i, :length].mean(0) for i, length in enumerate(lengths.tolist())])


@model(x="float[b,n,4]", lengths="lengths[b]<n", most=40)
def flipped_by_length(x, lengths):
    """The valid part of each row, backwards."""
    n = x.shape[1]
    at = torch.arange(n).expand(x.shape[0], -1)
    at = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)
    return x.gather(1, at.unsqueeze(-1).expand_as(x))


@dataclass
class Config:
    dim: int = 8
    experts: int = 4
    active: int = 2

    @property
    def inner(self):
        return self.dim * 2


@model(x="float[b,n,8]", most=40, ties=False)
class Experts(nn.Module):
    """Each row goes to two of four experts, and comes back with index_add_."""

    def __init__(self):
        super().__init__()
        self.config = config = Config()
        self.gate = nn.Linear(config.dim, config.experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(config.dim, config.inner), nn.SiLU(), nn.Linear(config.inner, config.dim)
            )
            for _ in range(config.experts)
        )

    def forward(self, x):
        b, n, d = x.shape
        flat = x.view(-1, d)
        weight, chosen = self.gate(flat).softmax(-1).topk(self.config.active, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        mask = F.one_hot(chosen, self.config.experts).permute(2, 1, 0)
        for e in range(self.config.experts):
            k, rows = torch.where(mask[e])
            if rows.shape[0] == 0:
                continue
            out.index_add_(0, rows, self.experts[e](flat[rows]) * weight[rows, k, None])
        return out.view(b, n, d)


@lru_cache(maxsize=8)
def sinusoids(length, dim):
    at = torch.arange(length)[:, None] * torch.exp(
        -math.log(10000) / (dim // 2 - 1) * torch.arange(dim // 2)
    )
    return torch.cat([at.sin(), at.cos()], 1)


@model(x="float[b,n,8]", most=100)
def cached_positions(x):
    """A table of positions that a cache keeps by length."""
    return x + sinusoids(x.shape[1], x.shape[2])


@model(x="int[b,n]<20", most=100)
class LearnedPositions(nn.Module):
    """A table that is cropped, or interpolated if the text is longer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.table = nn.Parameter(torch.randn(1, 12, 6))

    def forward(self, x):
        n = x.size(1)
        table = self.table
        if n > table.size(1):
            table = F.interpolate(table.mT, size=n, mode="linear", align_corners=False).mT
        return self.words(x) + table[:, :n]


@model(x="float[b,n=6,8]", most=60)
class PrefixMemory(nn.Module):
    """Memories stand before the rows, and are taken off again."""

    def __init__(self):
        super().__init__()
        self.memory = nn.Parameter(torch.randn(3, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        m = self.memory.expand(len(x), -1, -1)
        y = torch.cat([m, x], 1)
        mask = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        mask[:, : m.shape[1]] = False
        y, weights = self.attention(y, y, y, attn_mask=mask, need_weights=True)
        return y[:, m.shape[1] :], weights
