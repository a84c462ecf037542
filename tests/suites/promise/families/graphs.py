"""Graphs and point clouds: scatter, nearest neighbours, unique, sums of segments."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[n,4]", e="int[2,m]<n")
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, e):
        source, target = e
        messages = torch.zeros_like(x).index_add(0, target, self.other(x)[source])
        return self.own(x) + messages


@model(x="float[n,4]", e="int[2,m]<n")
def mean_of_neighbours(x, e):
    total = torch.zeros_like(x).scatter_add(0, e[1][:, None].expand(-1, 4), x[e[0]])
    degree = torch.zeros(len(x)).scatter_add(0, e[1], torch.ones(e.shape[1]))
    return total / degree.clamp(min=1)[:, None]


@model(x="float[n,4]", e="int[2,m]<n")
def symmetric_norm(x, e):
    degree = torch.bincount(e[1], minlength=x.shape[0]).float() + 1
    weight = degree[e[0]].rsqrt() * degree[e[1]].rsqrt()
    return x.index_add(0, e[1], x[e[0]] * weight[:, None])


@model(x="float[n,4]", e="int[2,m]<n")
def maximum_of_neighbours(x, e):
    out = torch.full_like(x, float("-inf"))
    out = out.scatter_reduce(0, e[1][:, None].expand(-1, 4), x[e[0]], "amax")
    return torch.where(out.isinf(), 0.0, out)


@model(x="float[n,4]", e="int[2,m]<n")
class EdgeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(8, 1)

    def forward(self, x, e):
        s = F.leaky_relu(self.score(torch.cat([x[e[0]], x[e[1]]], 1)))[:, 0]
        top = torch.full((len(x),), -1e9).scatter_reduce(0, e[1], s, "amax")
        p = (s - top[e[1]]).exp()
        total = torch.zeros(len(x)).index_add(0, e[1], p)
        return torch.zeros_like(x).index_add(0, e[1], x[e[0]] * (p / total[e[1]])[:, None])


@model(x="float[n,4]", g="int[n]<5")
def pooled_by_graph(x, g):
    return torch.zeros(5, 4).index_add(0, g, x)


@model(x="float[n,4]", g="int[n]<5")
def pooled_by_largest_id(x, g):
    count = int(g.max()) + 1
    return torch.zeros(count, 4).index_add(0, g, x)


@model(x="float[n,4]", g="int[n]<5")
def pooled_in_loop(x, g):
    return torch.stack([x[g == i].sum(0) for i in range(5)])


@model(x="float[n,4]", g="int[n]<5", most=64)
def pooled_over_unique(x, g):
    return torch.stack([x[g == i].mean(0) for i in g.unique()])


@model(x="float[n,4]", g="int[n]<5")
def means_by_unique(x, g):
    kinds, at = g.unique(return_inverse=True)
    total = torch.zeros(len(kinds), 4).index_add(0, at, x)
    return total / torch.bincount(at)[:, None]


@model(x="float[n,3]", most=257)
def distances(x):
    return torch.cdist(x, x)


@model(x="float[n,3]", y="float[m,3]", most=257)
def squared_by_hand(x, y):
    return (x * x).sum(1)[:, None] + (y * y).sum(1)[None] - 2 * x @ y.t()


@model(x="float[n,3]", most=131)
def three_nearest(x):
    d = (x[:, None] - x[None]).square().sum(-1)
    k = min(3, x.shape[0])
    return d.topk(k, largest=False).values


@model(x="float[n,3]", most=131)
class EdgeConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x):
        d = (x[:, None] - x[None]).square().sum(-1)
        at = d.argsort(dim=-1, stable=True)[:, :4]
        near = x[at]
        own = x[:, None].expand_as(near)
        return self.layer(torch.cat([own, near - own], -1)).amax(1)


@model(x="float[n,3]", most=64)
def farthest_points(x):
    chosen = [torch.tensor(0)]
    far = torch.full((x.shape[0],), 1e10)
    for _ in range(4):
        far = torch.minimum(far, (x - x[chosen[-1]]).square().sum(1))
        chosen.append(far.argmax())
    return torch.stack(chosen)


@model(x="float[n,3]", most=131)
def in_radius(x):
    near = torch.cdist(x, x) < 1
    return (near.float() @ x) / near.sum(1, keepdim=True)


@model(x="float[n,3]", most=131)
def edges_of_radius(x):
    d = (x[:, None] - x[None]).square().sum(-1)
    i, j = torch.where((d < 1) & ~torch.eye(len(x), dtype=torch.bool))
    return torch.stack([i, j]), d[i, j]


@model(x="float[n,3]")
def voxels(x):
    at = (x * 2).floor().long().clamp(-4, 3) + 4
    key = (at[:, 0] * 8 + at[:, 1]) * 8 + at[:, 2]
    kinds, inverse = key.unique(return_inverse=True)
    return kinds, torch.zeros(kinds.shape[0], 3).index_add(0, inverse, x)


@model(x="float[n,3]")
def centered_cloud(x):
    x = x - x.mean(0)
    return x / x.norm(dim=1).max().clamp(min=1e-6)


@model(x="float[b,n,3]", most=257)
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 8), nn.Linear(16, 4)

    def forward(self, x):
        h = self.a(x).relu()
        whole = h.amax(1, keepdim=True).expand(-1, x.shape[1], -1)
        return self.b(torch.cat([h, whole], -1))


@model(a="bool[n,n]", x="float[n,4]", most=131)
def dense_adjacency(a, x):
    a = a.float() + torch.eye(a.shape[0])
    d = a.sum(1).rsqrt()
    return (d[:, None] * a * d[None]) @ x


@model(a="bool[n,n]", most=131)
def edges_of_matrix(a):
    return a.nonzero().t(), a.sum(0)


@model(a="bool[n,n]", most=64)
def reachable(a):
    r = a.float() + torch.eye(a.shape[0])
    for _ in range(3):
        r = ((r @ r) > 0).float()
    return r


@model(a="bool[n,n]", most=33)
def reachable_until_stable(a):
    r = a | torch.eye(a.shape[0], dtype=torch.bool)
    while True:
        new = (r.float() @ r.float()) > 0
        if torch.equal(new, r):
            return r
        r = new


@model(x="positive[n,n]", most=33)
def shortest_paths(x):
    d = x
    for k in range(x.shape[0]):
        d = torch.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return d


@model(e="int[2,m]<n", x="float[n,4]", most=64)
def label_propagation(e, x):
    label = torch.arange(x.shape[0])
    for _ in range(3):
        label = label.scatter_reduce(0, e[1], label[e[0]], "amin")
    return label


@model(x="float[n,4]", e="int[2,m]<n", most=131)
def edge_features(x, e):
    return torch.cat([x[e[0]] - x[e[1]], (x[e[0]] * x[e[1]]).sum(1, keepdim=True)], 1)


@model(x="float[n,4]", i="lengths[b]<n", most=64)
def segments_by_counts(x, i):
    at = torch.repeat_interleave(torch.arange(len(i)), i)
    return at, torch.zeros(len(i)).index_add(0, at, torch.ones(len(at)))


@model(x="float[n,4]", g="int[n]<5")
def softmax_of_segments(x, g):
    top = torch.full((5, 4), -1e9).scatter_reduce(0, g[:, None].expand_as(x), x, "amax")
    p = (x - top[g]).exp()
    return p / torch.zeros(5, 4).index_add(0, g, p)[g]


@model(x="float[n,4]", g="int[n]<5")
def sorted_segments(x, g):
    order = g.argsort(stable=True)
    ends = torch.bincount(g, minlength=5).cumsum(0)
    total = F.pad(x[order].cumsum(0), (0, 0, 1, 0))
    return total[ends] - total[torch.cat([ends.new_zeros(1), ends[:-1]])]


@model(x="float[n,4]", g="int[n]<5")
def rank_in_segment(x, g):
    one_hot = F.one_hot(g, 5)
    return (one_hot.cumsum(0) * one_hot).sum(1) - 1


@model(x="float[n,4]", e="int[2,m]<n")
def degrees_and_isolated(x, e):
    degree = torch.zeros(x.shape[0], dtype=torch.long).index_add(0, e[0], torch.ones_like(e[0]))
    return x[degree > 0].sum(0), (degree == 0).sum()


@model(x="float[n,4]", e="int[2,m]<n", most=131)
def edges_once(x, e):
    low, high = torch.minimum(*e), torch.maximum(*e)
    key = torch.unique(low * x.shape[0] + high)
    return torch.stack([key // x.shape[0], key % x.shape[0]])


@model(x="float[n,2]", most=64)
def hull_area_by_angle(x):
    c = x - x.mean(0)
    order = torch.atan2(c[:, 1], c[:, 0]).argsort(stable=True)
    p = c[order]
    q = p.roll(-1, 0)
    return 0.5 * (p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]).sum().abs()
