"""Small models of plain numbers: normalizations, losses, sums, sorting, indices and sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .drawn_inputs import Size, floats, ids, mask, rising, uniform
from .subject import planted


@planted(x=floats("b", 6))
class perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3), nn.Softplus()
        )


@planted({"n": Size(6, 2)}, x=floats("n", 4))
def standardized(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-5)


@planted(x=floats("b", "n", 6))
class root_mean_square(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@planted(a=floats("n", 5), b=floats("m", 5))
def cosine_matrix(a, b):
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / 0.07


@planted(a=floats("n", 3), b=floats("m", 3))
def distances(a, b):
    d = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
    return d.clamp(min=0).sqrt(), (a[:, None] - b).abs().sum(-1).min(1).values


@planted(x=floats("n", 3), centers=floats("k", 3))
def nearest_centers(x, centers):
    at = ((x[:, None] - centers) ** 2).sum(-1).argmin(1)
    return at, x - centers[at]


@planted(x=uniform("b", "t"))
def survival(x):
    alive = torch.cumprod(1 - 0.9 * x, -1)
    before = torch.cat((torch.ones_like(alive[:, :1]), alive[:, :-1]), -1)
    return before * x


@planted(x=floats("b", "n"))
def polynomial(x):
    return x**3 - 2 * x**2 + x.sin() * x.cos() - 0.5 / (1 + x.abs())


@planted(x=floats("b", 4), y=floats("b", 4))
def losses(x, y):
    return (
        F.huber_loss(x, y, delta=0.7),
        F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
        F.smooth_l1_loss(x, y, beta=0.3, reduction="sum"),
    )


@planted(a=floats("b", 4), p=floats("b", 4), n=floats("b", 4))
def triplets(a, p, n):
    gap = (a - p).norm(dim=-1) - (a - n).norm(dim=-1) + 1
    return F.relu(gap).mean(), F.cosine_similarity(a, p)


@planted(x=floats("b", "n"))
def squashed(x):
    return torch.log1p(x.abs()).sign() * torch.expm1(x.clamp(-3, 3)) + F.softsign(x) + F.mish(x)


@planted({"n": Size(7)}, x=floats("b", "n"))
def median_and_range(x):
    ordered = x.sort(-1).values
    return ordered[:, x.shape[1] // 2], ordered[:, -1] - ordered[:, 0]


@planted(x=floats("n"))
def histogram(x):
    edges = torch.linspace(-2, 2, 9)
    inside = (x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])
    return inside.sum(0), inside.float().mean(0)


@planted({"n": Size(9, 3)}, x=floats("b", "n"))
def rolling(x):
    w = x.unfold(1, 3, 1)
    return w.mean(-1), w.amax(-1) - w.amin(-1)


@planted(a=floats("b", "n", 3), b=floats("b", "m", 3))
def products(a, b):
    return torch.einsum("bnd,bmd->bnm", a, b), torch.einsum("bnd,bme->bde", a, b)


@planted({"n": Size(6, 2)}, x=floats("b", "n"))
def shifted(x):
    return x.diff(dim=-1).flip(-1), x.roll(1, -1), x[:, ::2]


@planted({"n": Size(5)}, x=floats("b", "n", "n"))
def triangles(x):
    return x.tril(-1).sum(-1), x.triu(1).sum(-2), x.diagonal(dim1=-2, dim2=-1)


@planted(x=floats("n"), edges=rising(6))
def buckets(x, edges):
    at = torch.bucketize(x, edges)
    return at, F.pad(edges, (1, 1))[at]


@planted(x=floats("b", "n"))
def running_most(x):
    values, at = x.cummax(-1)
    return values, at, x.cumsum(-1)


@planted(logits=floats("b", 5), target=ids("b", high=5))
def accuracy(logits, target):
    right = logits.argmax(-1) == target
    picked = logits.gather(1, target[:, None])[:, 0]
    return right.float().mean(), right.sum(), logits.logsumexp(-1) - picked


@planted(x=floats("b", "n"))
def without_nan(x):
    y = torch.nan_to_num(x / x.relu(), nan=0.0, posinf=5.0, neginf=-5.0)
    return torch.where(x > 0, y, x * 0.5)


@planted(x=floats("b", "n"), keep=mask("b", "n"))
def masked_statistics(x, keep):
    count = keep.sum(-1).clamp(min=1)
    mean = (x * keep).sum(-1) / count
    var = (((x - mean[:, None]) ** 2) * keep).sum(-1) / count
    return mean, var.sqrt(), torch.where(keep, x, x.new_tensor(-1e4)).max(-1).values


@planted(x=floats("n", 3))
def grows_with_rows(x):
    n = x.shape[0]
    weights = torch.arange(n, dtype=torch.float32) / n
    return x * weights[:, None] + n, x.sum(0) / (n + 1)


@planted({"n": Size(6)}, x=floats("n", 3))
def asks_for_rows(x):
    if x.shape[0] > 4:
        x = x - x.mean(0)
    return x.cumsum(0)


@planted(x=floats("b", 8))
def split_and_gated(x):
    a, b, c = x.split((2, 2, 4), -1)
    return torch.cat((a.sigmoid() * b.tanh(), c.chunk(2, -1)[1].relu()), -1)


@planted(x=floats("b", "n"), y=floats("b", "n"))
def compared(x, y):
    nearer = (x - y).abs() < 0.5
    return torch.maximum(x, y), nearer & (x > 0), torch.where(nearer | (y >= x), x, y)


@planted(x=ids("b", "n", high=40))
def whole_numbers(x):
    return x // 3 + x % 5, (x > 20).long() * 2 - 1, (x - 7).clamp(0, 15), x.float() / 4


@planted(x=floats("b", "n", dtype=torch.float64))
def in_doubles(x):
    return x.std(-1, unbiased=False), (x * x).mean(-1).log1p(), x.softmax(-1)


@planted(x=floats("b", "c", 4))
def repeated_and_expanded(x):
    y = x.repeat(1, 2, 1) + x.mean(1, keepdim=True).expand(-1, 2 * x.shape[1], -1)
    return y.repeat_interleave(2, -1).view(x.shape[0], -1)


@planted(x=floats("b", 6))
class highway(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.gate, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x):
        g = self.gate(x).sigmoid()
        return self.norm(g * F.selu(self.lin(x)) + (1 - g) * x)
