"""Small models of indices and flow: tables, sorting, whole numbers, logic, branches and loops."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .drawn_inputs import Size, columns, floats, ids, mask, padding, places, rising, whole
from .subject import planted


@planted(x=columns("n", ends=((0, 3), (0, 7), (0, 31), (1, 12))))
class table_of_events(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind, self.color, self.place = (
            nn.Embedding(4, 5),
            nn.Embedding(8, 5),
            nn.Embedding(32, 5),
        )

    def forward(self, x):
        found = self.kind(x[:, 0]) + self.color(x[:, 1]) * self.place(x[:, 2])
        return found, torch.sin(x[:, 3] * 0.5236)


@planted(x=columns("n", ends=((1890, 2110), (1, 12), (1, 31))))
def days(x):
    year, month, day = x.unbind(1)
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    before = torch.tensor([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])[month - 1]
    past = before + day + (leap & (month > 2)).long()
    return past, (past - 1) // 7, 366 - past - (~leap).long()


@planted(x=whole("b", "n", ends=(-40, 40)), y=whole("b", "n", ends=(1, 9)))
def divided_whole_numbers(x, y):
    return (
        x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y),
        x.abs().clamp(3, 30) * x.sign(), (x >> 1) & 7, x ^ y,
    )  # fmt: skip


@planted(x=whole("b", "n", ends=(-9, 9), dtype=torch.int32), k=whole(1, ends=(1, 5)))
def narrow_whole_numbers(x, k):
    return x * x - 3, (x.long() + k) * 2, x.sum(-1), x.float() / k


@planted(a=mask("b", "n"), b=mask("b", "n"), x=floats("b", "n"))
def logic(a, b, x):
    c = (a ^ b) | ~(a & (x > 0.5))
    return c, c.any(-1), (b | (x < 0)).all(-1), torch.where(a & ~b, x, -x), (a == b).sum(-1)


@planted(x=ids("b", "t", high=23))
class several_bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum, self.mean = (
            nn.EmbeddingBag(23, 4, mode="sum"),
            nn.EmbeddingBag(23, 4, padding_idx=0),
        )

    def forward(self, x):
        return self.sum(x).tanh() + self.mean(x)


@planted(x=ids("b", "t", high=1500), weight=floats("b", "t"))
class large_table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1500, 4, padding_idx=0)

    def forward(self, x, weight):
        return (self.table(x) * weight.sigmoid()[..., None]).sum(1)


@planted(x=floats("b", "t", 3), h=floats(2, "b", 4), c=floats(2, "b", 4))
class both_ways(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, bidirectional=True, batch_first=True)

    def forward(self, x, h, c):
        out, (h, c) = self.lstm(x, (h, c))
        return out, h, c


@planted(x=floats("t", "b", 3))
class stacked_recurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.gru = nn.RNN(3, 4, 2), nn.GRU(4, 3, bidirectional=True)

    def forward(self, x):
        return self.gru(self.rnn(x)[0])[0]


@planted(x=floats("b", 6, 8), bias=floats(6, 6), keep=padding("b", 6))
class attention_with_masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, bias, keep):
        pad = torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))
        return self.attention(x, x, x, key_padding_mask=pad, attn_mask=bias)


@planted(q=floats("b", 4, "t", 6), k=floats("b", 2, "s", 6), v=floats("b", 2, "s", 6))
def grouped_queries(q, k, v):
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    t, s = q.shape[2], k.shape[2]
    seen = torch.ones(t, s, dtype=torch.bool).tril(s - t) | (torch.arange(s) < 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


@planted(x=floats("b", "t", 4), part=ids("b", "t", high=4))
def attention_in_parts(x, part):
    same = part[:, :, None] == part[:, None]
    near = (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).abs() < 4
    scores = (x @ x.mT * 0.5).masked_fill(~(same & near), -1e9)
    return scores.softmax(-1) @ x


@planted({"p": Size(3, 0)}, x=floats("b", "t", 6), past=floats("b", "p", 6))
class with_a_cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.place = (
            nn.Linear(6, 6),
            nn.Linear(6, 6),
            nn.Parameter(torch.randn(2100, 6)),
        )

    def forward(self, x, past):
        kv = torch.cat(
            (past, self.kv(x) + self.place[past.shape[1] : past.shape[1] + x.shape[1]]), 1
        )
        scores = self.q(x) @ kv.mT * 0.4
        seen = torch.arange(kv.shape[1]) <= torch.arange(x.shape[1])[:, None] + past.shape[1]
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ kv, kv


@planted(x=floats("b", "t", 4), at=ids("b", "t", high=40))
def turned_by_places(x, at):
    angle = torch.arange(64)[:, None] * torch.tensor([1.0, 0.3])
    cos, sin = angle.cos()[at], angle.sin()[at]
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


@planted(scores=floats("b", "t", "t"))
def shifted_relative(scores):
    b, t = scores.shape[:2]
    x = F.pad(scores, (1, 0)).view(b, t + 1, t)
    return x[:, 1:].reshape(b, t, t).tril().softmax(-1)


@planted({"k": Size(3)}, total=floats("k"), logits=floats("k", 11), state=floats("k", 5))
def search_step(total, logits, state):
    done = logits.argmax(-1) == 2
    logits = logits.log_softmax(-1).masked_fill(done[:, None], -20.0)
    best, at = (total[:, None] + logits).flatten().topk(3)
    return best, at % 11, state[at // 11], done[at // 11]


@planted({"n": Size(8, 4)}, x=floats("b", "n"))
def least_and_kth(x):
    least, at = x.topk(3, largest=False)
    return least, at, x.kthvalue(2).values, x.argsort(-1, descending=True), x.median(-1).values


@planted({"n": Size(7)}, x=floats("e", 3), to=places("e", of="n"), like=floats("n", 3))
def scattered_in_ways(x, to, like):
    by = to[:, None].expand(-1, 3)
    most = torch.zeros_like(like).scatter_reduce(0, by, x, "amax", include_self=False)
    mean = like.scatter_reduce(0, by, x, "mean", include_self=True)
    return most, mean, like.clone().index_put((to,), x, accumulate=True)


@planted({"n": Size(7)}, x=floats("n", 4), to=places("e", of="n"), frm=places("e", of="n"))
class attention_of_edges(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.a = nn.Linear(4, 4), nn.Linear(8, 1)

    def forward(self, x, to, frm):
        h, n = self.lin(x), x.shape[0]
        e = F.leaky_relu(self.a(torch.cat((h[to], h[frm]), 1)), 0.2)[:, 0]
        most = torch.full((n,), -1e4).scatter_reduce(0, to, e, "amax")
        e = (e - most[to]).exp()
        e = e / (torch.zeros(n).index_add(0, to, e)[to] + 1e-6)
        return torch.zeros_like(h).index_add(0, to, e[:, None] * h[frm])


@planted(x=floats("b", "n"))
def sums_in_both_ways(x):
    before = x.cumsum(1) - x
    after = x.flip(1).cumsum(1).flip(1)
    return before, after, torch.logcumsumexp(x, 1), (x * 0.5).tanh().cumprod(1)


@planted(x=floats("b", "n", 3), key=floats("b", "n"))
def sorted_and_back(x, key):
    order = key.argsort(dim=1, stable=True)
    run = x.gather(1, order[..., None].expand_as(x)).cumsum(1)
    back = order.argsort(1)
    return run.gather(1, back[..., None].expand_as(x)), torch.take_along_dim(key, order, 1)


@planted(edges=rising("k"), x=floats("b", "n"))
def searched(edges, x):
    right = torch.searchsorted(edges, x, right=True)
    return right, torch.searchsorted(edges, x), edges[right.clamp(max=edges.shape[0] - 1)] - x


@planted({"n": Size(9, 3)}, x=floats("b", "n"), at=whole("m", ends=(-3, 2)))
def picked_from_either_end(x, at):
    return x[:, at], x[:, -2:].flip(1), torch.roll(x, 2, 1)[:, ::3]


@planted(x=floats("b", 5))
def turned_by_the_mean(x):
    if x.mean() > 0:
        return x.cumsum(1) - 1
    return x.abs().sqrt() * 2


@planted(x=floats("b", 5), flag=mask(1))
class ways_in_ways(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x, flag):
        if flag:
            y = self.one(x)
            if y.sum() > 1:
                y = y / (1 + y.abs().max())
            return y
        return self.two(x).relu()


@planted(x=floats("b", 4))
def halved_until_small(x):
    for _ in range(20):
        if x.abs().max() <= 1:
            break
        x = x / 2
    return x


@planted(x=floats("b", 4), n=whole(ends=(1, 9)))
class as_often_as_said(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, n):
        for _ in range(int(n)):
            x = torch.tanh(self.lin(x)) + 0.5 * x
        return x


@planted(x=floats(1, 6), n=whole(ends=(3, 12)))
class written_word_by_word(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out, self.word = nn.GRUCell(4, 6), nn.Linear(6, 9), nn.Embedding(9, 4)

    def forward(self, x, n):
        h, at, found = x, torch.ones(1, dtype=torch.int64), []
        for _ in range(int(n)):
            h = self.cell(self.word(at), h)
            at = self.out(h).argmax(-1)
            found.append(at)
        return torch.stack(found, 1)


@planted({"t": Size(7, 2)}, x=floats("b", "t", 4), steps=floats(4, 4))
def best_path(x, steps):
    score, back = x[:, 0], []
    for i in range(1, x.shape[1]):
        most, at = (score[:, :, None] + steps).max(1)
        score = most + x[:, i]
        back.append(at)
    return score.max(-1).values, torch.stack(back, 1)


@planted(x=floats("b", "n"), y=floats("b", "n"))
def special_functions(x, y):
    return (
        torch.erf(x) + torch.atan2(y, x), torch.logaddexp(x, y), torch.hypot(x, y) - torch.sinc(x),
        torch.copysign(x, y) + x.frac() + y.trunc(), torch.round(x, decimals=1) - y.floor(),
        torch.where(x > 0, x.clamp(min=1e-3).lgamma(), torch.xlogy(x.abs(), y.abs() + 1)),
    )  # fmt: skip


@planted({"n": Size(6, 2)}, x=floats("b", "n", 4), y=floats("b", "n", 4))
def several_norms_of_rows(x, y):
    far = torch.cdist(x, y, p=1.0)
    var, mean = torch.var_mean(x, 1)
    return far, F.normalize(x, p=1.0, dim=1), mean / (var + 1e-3).sqrt(), x.quantile(0.3, dim=1)


@planted(x=floats("b", "n"))
def sparse_softmax(x):
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[1] + 1)
    sums = ordered.cumsum(-1)
    last = (1 + count * ordered > sums).sum(-1, keepdim=True)
    edge = (sums.gather(-1, last - 1) - 1) / last
    return (x - edge).clamp(min=0)


@planted({"n": Size(5, 1, 200)}, a=floats("b", "n", 3), b=floats("b", 3, "n"), c=floats(3, 2))
def contracted(a, b, c):
    return torch.einsum("bni,bim,ik->bnmk", a, b, c), torch.baddbmm(a @ b, a, b, beta=0.3, alpha=2)


@planted({"n": Size(8, 2)}, x=floats("n", 4))
def kept_rows(x):
    keep = x[:, 0] > 0
    return x[keep] * 2, torch.nonzero(keep)[:, 0], keep.cumsum(0)


@planted(x=floats("b", "n"), w=floats("n"))
def filled_by_masks(x, w):
    y = x.clone()
    y[y > 1] = 1 + y[y > 1].log()
    y[:, 0] = w[-1]
    y[:, 1:] += w[1:] * 0.5
    return y, torch.diag_embed(w)


@planted(inputs=floats("b", 3), other=floats("b", 3), keep=mask("b", 3))
def several_of_several(inputs, other, keep):
    low, high = torch.aminmax(torch.stack((inputs, other)), dim=0)
    return {"low": low, "rest": [high * keep, (high - low).argmax(1)], "one": (keep.sum(),)}
