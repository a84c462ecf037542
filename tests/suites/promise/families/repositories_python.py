"""Loops, lists and questions of Python, as notebooks and tutorials write them."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[n=8,4]", most=40)
def pairwise_tree(x):
    parts = list(x)
    while len(parts) > 1:
        merged = []
        for i in range(0, len(parts) - 1, 2):
            merged.append(torch.tanh(parts[i] + parts[i + 1]))
        if len(parts) % 2:
            merged.append(parts[-1])
        parts = merged
    return parts[0]


@model(x="float[n=8,4]", most=40)
def recursive_tree(x):
    def merge(lo, hi):
        if hi - lo == 1:
            return x[lo]
        mid = (lo + hi) // 2
        return torch.maximum(merge(lo, mid), merge(mid, hi)) * 0.9

    return merge(0, x.shape[0])


@model(x="float[n=8,4]", most=40)
def any_row(x):
    """A branch if any row is large."""
    if any((row.abs().max() > 2.5) for row in x):
        x = x / 2
    return x.sum(0)


@model(x="float[n=8,4]", most=40)
def all_rows(x):
    if all(row.sum().item() > -6 for row in x):
        return x * 2
    return x - 1


@model(x="float[n=8,4]", most=40)
def per_row_last_two(x):
    """Each row against the last two results."""
    outs = []
    for i in range(x.shape[0]):
        recent = outs[-2:]
        base = sum(recent) / len(recent) if recent else torch.zeros(4)
        outs.append(0.5 * x[i] + 0.5 * base)
    return torch.stack(outs)


@model(x="float[n=7,5]", w="uniform[n]", most=40)
def weighted_splits(x, w):
    parts = x.split(2)
    ws = w.split(2)
    return torch.stack([(p * q[:, None]).sum(0) for p, q in zip(parts, ws)])


@model(x="float[n=6,m=5]", most=24)
def lower_triangle(x):
    r, c = np.tril_indices(min(x.shape))
    return x[r, c]


@model(x="float[n=6,n]", most=24)
def upper_pairs(x):
    iu = np.triu_indices(x.shape[0], k=1)
    return x[iu]


@model(x="float[b=1,3,h=11,w=9]", most=24)
class TiledInference(nn.Module):
    """Tiles that overlap, weights summed and divided."""

    def __init__(self, tile=6, overlap=2):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.tile, self.overlap = tile, overlap

    def forward(self, img):
        b, c, h, w = img.size()
        tile = min(self.tile, h, w)
        stride = tile - self.overlap if tile > self.overlap else 1
        h_idx = list(range(0, h - tile, stride)) + [h - tile]
        w_idx = list(range(0, w - tile, stride)) + [w - tile]
        E = torch.zeros(b, c, h, w).type_as(img)
        W = torch.zeros_like(E)
        for hi in h_idx:
            for wi in w_idx:
                patch = img[..., hi : hi + tile, wi : wi + tile]
                out = self.conv(patch)
                E[..., hi : hi + tile, wi : wi + tile].add_(out)
                W[..., hi : hi + tile, wi : wi + tile].add_(torch.ones_like(out))
        return E.div_(W)


@model(x="float[n=8,4]", most=40)
def sorted_by_norm(x):
    rows = sorted(x, key=lambda r: -float(r.norm()))
    return torch.stack(rows[:3])


@model(x="float[n=8,4]", most=40)
def dict_of_lists(x):
    feats = defaultdict(list)
    for i, row in enumerate(x):
        feats["even" if i % 2 == 0 else "odd"].append(row)
    return {k: torch.stack(v).sum(0) for k, v in feats.items()}


@model(x="float[n=8,4]", most=40)
def early_stopping(x):
    best, wait = None, 0
    for row in x:
        loss = row.pow(2).mean()
        if best is None or loss < best:
            best, wait = loss, 0
        else:
            wait += 1
        if wait >= 2:
            break
    return best


@model(x="float[n=8,4]", most=40)
def exponential_list(x, decay=0.9):
    n = len(x)
    weights = [decay ** (n - 1 - i) for i in range(n)]
    total = sum(weights)
    weights = torch.tensor([w / total for w in weights])
    return (x * weights[:, None]).sum(0)


@model(x="float[n=8,2]", most=24, ties=False)
def kmeans_lloyd(x):
    c = x[:3].clone()
    for _ in range(4):
        d = torch.cdist(x, c)
        a = d.argmin(1)
        for k in range(len(c)):
            m = a == k
            if m.any():
                c[k] = x[m].mean(0)
    return c, a


@model(a="float[n=6,3]", c="float[m=5,3]", most=10)
def dtw(a, c):
    """Dynamic time warping over two sizes."""
    n, m = len(a), len(c)
    D = torch.full((n + 1, m + 1), float("inf"))
    D[0, 0] = 0
    cost = torch.cdist(a, c)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = cost[i - 1, j - 1] + torch.min(
                torch.min(D[i - 1, j], D[i, j - 1]), D[i - 1, j - 1]
            )
    return D[n, m]


@model(x="float[n=8,4]", most=30)
def bisected_threshold(x):
    lo, hi = x.min(), x.max()
    for _ in range(20):
        mid = (lo + hi) / 2
        if (x > mid).float().mean() > 0.5:
            lo = mid
        else:
            hi = mid
    return x > mid


@model(x="float[n=8,4]", most=40)
def accumulate_until_chunk(x, limit=3):
    """Collects rows in a buffer that is flushed at three rows."""
    buf, outs = [], []
    for row in x:
        buf.append(row)
        if len(buf) == limit:
            outs.append(torch.stack(buf).mean(0))
            buf = []
    if buf:
        outs.append(torch.stack(buf).mean(0))
    return torch.stack(outs)


@model(x="float[n=6,n]", most=12, ties=False)
def greedy_matching(x):
    s = x.clone()
    rows, cols = [], []
    for _ in range(s.shape[0]):
        flat = s.argmax()
        r, c = flat // s.shape[1], flat % s.shape[1]
        rows.append(r)
        cols.append(c)
        s[r, :] = -1e9
        s[:, c] = -1e9
    return torch.stack(rows), torch.stack(cols)


@model(x="float[n=8,4]", most=40)
def running_stats_welford(x):
    mean, m2, k = torch.zeros(4), torch.zeros(4), 0
    for row in x:
        k += 1
        d = row - mean
        mean = mean + d / k
        m2 = m2 + d * (row - mean)
    return mean, (m2 / max(k - 1, 1)).sqrt()


@model(x="float[n=9,4]", most=40)
def folds(x):
    """Leave-one-fold-out means over three folds."""
    n = len(x)
    sizes = [n // 3 + (1 if i < n % 3 else 0) for i in range(3)]
    parts = torch.split(x, sizes)
    return torch.stack(
        [torch.cat([p for j, p in enumerate(parts) if j != i]).mean(0) for i in range(3)]
    )


@model(x="float[h=4,w=6,3]", most=16)
def grid_by_product(x):
    pts = torch.tensor(
        list(itertools.product(range(x.shape[0]), range(x.shape[1]))), dtype=torch.float32
    )
    return x.reshape(-1, 3) + pts.sum(1, keepdim=True)


@model(x="float[n=8,4]", most=30)
def append_every_second(x):
    h = torch.zeros(4)
    outs = []
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
        if i % 2 == 0:
            outs.append(h)
    return torch.stack(outs)


@model(x="float[n=8,4]", most=40)
def list_normalized(x):
    n = len(x)
    w = [1.0 / (i + 1) for i in range(n)]
    s = sum(w)
    return (x * torch.tensor([v / s for v in w])[:, None]).sum(0)


@model(x="float[h=4,w=6,3]", most=16)
def priors_list(x):
    """SSD's priors, with product and +=."""
    f = x.shape[:2]
    mean = []
    for i, j in itertools.product(range(f[0]), range(f[1])):
        cx = (j + 0.5) / f[1]
        cy = (i + 0.5) / f[0]
        mean += [cx, cy, 0.2, 0.2]
    return x.reshape(-1, 3) + torch.Tensor(mean).view(-1, 4).clamp_(max=1, min=0).sum(
        1, keepdim=True
    )


@model(x="float[b=2,3,h=12,w=10]", most=24)
def pooled_halves(x):
    h, w = x.shape[-2:]
    return (
        F.avg_pool2d(x, (h // 2, w // 2), stride=(h // 2, w // 2)).flatten(1)
        if min(h, w) > 1
        else x.mean((2, 3)).repeat(1, 4)
    )
