"""Small models of sequences: attention, recurrences, masks, positions, embeddings."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from .drawn_inputs import Size, floats, ids, lengths, mask, padding, places
from .subject import planted


@planted(x=floats("b", "t", 8), keep=padding("b", "t"))
class attention_with_padding(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x, keep):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(4)
        scores = scores.masked_fill(~keep[:, None, None], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, 8))


@planted(x=floats("b", "t", 8))
class causal_attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        t = x.shape[1]
        open_ = torch.ones(t, t, dtype=torch.bool).tril()
        scores = (q @ k.mT * 8**-0.5).masked_fill(~open_, -1e9)
        return x + scores.softmax(-1) @ v


@planted(q=floats("b", "s", 8), kv=floats("b", "t", 8))
class cross_attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, q, kv):
        return self.inner(q, kv, kv)


@planted(x=floats("b", "t", 8), hidden=padding("b", "t"))
class encoder_layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)

    def forward(self, x, hidden):
        return self.inner(x, src_key_padding_mask=hidden.logical_not())


@planted(q=floats("b", 2, "t", 4), k=floats("b", 2, "s", 4), v=floats("b", 2, "s", 4),
         open=mask("t", "s"))  # fmt: skip
def fused_attention(q, k, v, open):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=open)


@planted(x=floats("b", "t", 5))
class last_of_lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        out, (h, _) = self.lstm(x)
        return self.head(out[:, -1]), h[0], out.mean(1)


@planted(x=floats("b", "t", 5))
class both_ways_gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 4, bidirectional=True, batch_first=True)

    def forward(self, x):
        out, h = self.gru(x)
        return out.max(1).values, h.transpose(0, 1).flatten(1)


@planted(x=floats("b", "t", 4))
class cell_in_a_loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 5)
        found = []
        for i in range(x.shape[1]):
            h = self.cell(x[:, i], h)
            found.append(h)
        return torch.stack(found, 1), h


@planted(x=ids("b", "t", high=30), keep=padding("b", "t", dtype=torch.float32))
class masked_bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(30, 6), nn.Linear(6, 2)

    def forward(self, x, keep):
        summed = (self.table(x) * keep[..., None]).sum(1)
        return self.head(summed / keep.sum(1, keepdim=True).clamp(min=1))


@planted(x=floats("b", "t", 6))
def sinusoidal(x):
    t, d = x.shape[1:]
    place = torch.arange(t)[:, None]
    by = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    table = torch.zeros(t, d)
    table[:, 0::2], table[:, 1::2] = torch.sin(place * by), torch.cos(place * by)
    return x * math.sqrt(d) + table


@planted(x=floats("b", "t", 2, 6))
def rotary(x):
    t, half = x.shape[1], x.shape[-1] // 2
    by = 1.0 / (10000 ** (torch.arange(half).float() / half))
    angle = torch.outer(torch.arange(t).float(), by)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


@planted(scores=floats("b", 2, "t", "t"))
def alibi(scores):
    t = scores.shape[-1]
    far = torch.arange(t)[None] - torch.arange(t)[:, None]
    slopes = torch.tensor([0.5, 0.25])[:, None, None]
    scores = scores + slopes * far
    return scores.masked_fill(far > 0, float("-inf")).softmax(-1)


@planted({"t": Size(6, 1, 64)}, x=ids("b", "t", high=20))
class learned_places(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(20, 6), nn.Embedding(64, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(self.word(x) + self.place(torch.arange(x.shape[1])))


@planted(q=floats("b", "t", 6))
class relative_buckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 1)

    def forward(self, q):
        t = q.shape[1]
        far = (torch.arange(t)[None] - torch.arange(t)[:, None]).abs()
        large = 4 + (torch.log(far.float().clamp(min=1) / 4) / math.log(16) * 4).long()
        bucket = torch.where(far < 4, far, large.clamp(max=7))
        scores = q @ q.mT / math.sqrt(6) + self.bias(bucket)[..., 0]
        return scores.softmax(-1) @ q


@planted(x=floats("b", "t", 4), length=lengths("b", of="t"))
def mean_by_length(x, length):
    keep = torch.arange(x.shape[1])[None] < length[:, None]
    return (x * keep[..., None]).sum(1) / length[:, None]


@planted(x=floats("b", "t", 4), length=lengths("b", of="t"))
def last_token(x, length):
    at = (length - 1)[:, None, None].expand(-1, 1, x.shape[-1])
    return x.gather(1, at)[:, 0].tanh()


@planted(x=floats("b", "t", 4), length=lengths("b", of="t"))
def most_by_length(x, length):
    hidden = torch.arange(x.shape[1]) >= length[:, None]
    return x.masked_fill(hidden[..., None], float("-inf")).amax(1)


@planted(x=floats("b", "t", 6))
def windowed_attention(x):
    t = x.shape[1]
    far = torch.arange(t)[:, None] - torch.arange(t)
    near = (far >= 0) & (far < 3)
    scores = torch.where(near, x @ x.mT, torch.tensor(-1e4))
    return scores.softmax(-1) @ x


@planted(q=floats("b", "t", 4), k=floats("b", "t", 4), v=floats("b", "t", 3))
def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = torch.cumsum(k[..., None] * v[..., None, :], 1)
    return (q[..., None] * kv).sum(-2) / (q * k.cumsum(1)).sum(-1, keepdim=True)


@planted({"t": Size(6)}, logits=floats("b", "t", 7), target=ids("b", "t", high=7))
def smoothed_loss(logits, target):
    flat, target = logits.flatten(0, 1), target.flatten()
    return F.cross_entropy(flat, target, label_smoothing=0.1, ignore_index=0)


@planted(logits=floats("b", "k", 9), scores=floats("b", "k"))
def beam_step(logits, scores):
    total = logits.log_softmax(-1) + scores[..., None]
    best, at = total.flatten(1).topk(3, -1)
    return best, at // 9, at % 9


@planted(logits=floats("b", 12))
def top_p(logits):
    ordered, at = logits.sort(-1, descending=True)
    p = ordered.softmax(-1)
    drop = p.cumsum(-1) - p > 0.8
    drop = torch.zeros_like(drop).scatter(-1, at, drop)
    return logits.masked_fill(drop, float("-inf")).softmax(-1)


@planted(x=ids("b", "t", high=6))
class one_hot_words(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        hot = F.one_hot(x, 6).float()
        return hot @ self.weight, hot.sum(1)


@planted(x=floats("b", "t", 4))
class causal_convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, dilation=2)

    def forward(self, x):
        y = self.conv(F.pad(x.transpose(1, 2), (4, 0)))
        return x + F.glu(y, 1).transpose(1, 2)


@planted({"n": Size(8)}, x=floats("n", 6))
class experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.each = nn.Parameter(torch.randn(3, 6, 4))

    def forward(self, x):
        weight, at = self.gate(x).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        all_ = torch.einsum("nd,edf->nef", x, self.each)
        picked = all_.gather(1, at[..., None].expand(-1, -1, 4))
        return (picked * weight[..., None]).sum(1)


@planted({"t": Size(9)}, x=floats("b", "t"))
def exponential_average(x):
    y, found = x[:, 0], []
    for i in range(x.shape[1]):
        y = 0.7 * y + 0.3 * x[:, i]
        found.append(y)
    return torch.stack(found, 1)


@planted({"t": Size(8)}, x=floats("b", "t", 3))
def in_chunks(x):
    sums = [x[:, i : i + 4].sum(1) for i in range(0, x.shape[1], 4)]
    return torch.stack(sums, 1).softmax(1)


@planted({"n": Size(7)}, x=floats("n", 4), to=places("e", of="n"), frm=places("e", of="n"))
class message_passing(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, to, frm):
        sent = torch.zeros_like(x).index_add(0, to, self.lin(x)[frm])
        count = torch.zeros(x.shape[0]).scatter_add(0, to, torch.ones(to.shape[0]))
        return F.relu(x + sent / count.clamp(min=1)[:, None])
