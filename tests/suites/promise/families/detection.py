"""Boxes, overlaps, loops that suppress, anchors."""

from __future__ import annotations

import torch
from torch import nn

from ..listing import model


def overlap(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_a, area_b = ((x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b))
    return shared / (area_a[:, None] + area_b[None] - shared + 1e-6)


@model(x="boxes[n]", y="boxes[m]", most=257)
def all_overlaps(x, y):
    return overlap(x, y)


@model(x="boxes[n]", y="boxes[m]", most=257)
def best_match(x, y):
    value, at = overlap(x, y).max(1)
    return value, y[at]


@model(x="boxes[n]", y="boxes[m]", most=257)
def matched_or_not(x, y):
    value, at = overlap(x, y).max(1)
    at = at.clone()
    at[value < 0.3] = -1
    return (at >= 0).float() * value


@model(x="boxes[n]")
def centers_and_sizes(x):
    center, size = (x[:, :2] + x[:, 2:]) / 2, x[:, 2:] - x[:, :2]
    return torch.cat([center, size], 1)


@model(x="boxes[n]", d="float[n,4]")
def decoded(x, d):
    size = x[:, 2:] - x[:, :2]
    center = x[:, :2] + size / 2 + d[:, :2] * size
    size = size * d[:, 2:].clamp(max=4).exp()
    return torch.cat([center - size / 2, center + size / 2], 1)


@model(x="boxes[n]", p="float[c=2,h,w]")
def clipped_to_picture(x, p):
    h, w = p.shape[-2:]
    return torch.stack(
        [x[:, 0].clamp(0, w), x[:, 1].clamp(0, h), x[:, 2].clamp(0, w), x[:, 3].clamp(0, h)], 1
    )


@model(x="boxes[n]")
def large_ones_kept(x):
    size = x[:, 2:] - x[:, :2]
    return x[(size > 5).all(1)]


@model(x="boxes[n]", s="uniform[n]")
def thresholded(x, s):
    keep = torch.where(s > 0.4)[0]
    return x[keep], s[keep]


@model(x="boxes[n]", s="uniform[n]", ties=False)
def best_five(x, s):
    value, at = s.topk(min(5, s.shape[0]))
    return x[at], value


@model(x="boxes[n]", s="uniform[n]", most=33)
def suppressed_by_loop(x, s):
    order = s.argsort(descending=True, stable=True)
    x = x[order]
    iou = overlap(x, x)
    keep = torch.ones(len(x), dtype=torch.bool)
    for i in range(len(x)):
        if keep[i]:
            keep[i + 1 :] &= iou[i, i + 1 :] < 0.3
    return order[keep]


@model(x="boxes[n]", s="uniform[n]", most=33)
def suppressed_until_empty(x, s):
    kept = []
    left = s.argsort(descending=True, stable=True)
    while left.numel() > 0:
        kept.append(left[0])
        iou = overlap(x[left[:1]], x[left])[0]
        left = left[1:][iou[1:] < 0.3]
    return torch.stack(kept)


@model(x="boxes[n]", s="uniform[n]", most=131)
def suppressed_by_matrix(x, s):
    order = s.argsort(descending=True, stable=True)
    iou = overlap(x[order], x[order]).triu(1)
    return x[order] * (iou.amax(0) < 0.3)[:, None]


@model(x="boxes[n]", s="uniform[n]", most=131)
def soft_scores(x, s):
    order = s.argsort(descending=True, stable=True)
    iou = overlap(x[order], x[order]).triu(1)
    worst = iou.amax(0)
    return s[order] * torch.exp(-(iou**2 - worst[:, None] ** 2) / 0.5).amin(0)


@model(x="float[b,2,h,w]", most=64)
def anchors_of_grid(x):
    h, w = x.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    centers = torch.stack([xs, ys], -1).reshape(-1, 1, 2) * 8.0 + 4
    sizes = torch.tensor([[8.0, 8.0], [16.0, 8.0]])
    return torch.cat([centers - sizes / 2, centers + sizes / 2], -1).flatten(0, 1) + x.mean()


@model(x="float[b,2,h,w]", y="float[b,2,m,k]", most=64)
def anchors_of_levels(x, y):
    out = []
    for level, stride in zip((x, y), (8, 16)):
        h, w = level.shape[-2:]
        at = torch.cartesian_prod(torch.arange(h), torch.arange(w)).float() * stride
        out.append(torch.cat([at, torch.full_like(at, stride * 2)], 1))
    return torch.cat(out) * x.amax()


@model(x="float[b,7,h,w]", most=64)
class Head(nn.Module):
    """Boxes of a grid, as YOLO has them; the grid is kept until the size changes."""

    def __init__(self):
        super().__init__()
        self.grid, self.shape = None, None

    def forward(self, x):
        b, c, h, w = x.shape
        if self.shape != (h, w):
            ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            self.grid, self.shape = torch.stack([xs, ys]).float(), (h, w)
        xy = (x[:, :2].sigmoid() + self.grid) / torch.tensor([w, h]).view(1, 2, 1, 1)
        out = torch.cat([xy, x[:, 2:4].clamp(max=5).exp(), x[:, 4:].sigmoid()], 1)
        return out.flatten(2).transpose(1, 2)


@model(x="float[b,3,h,w]", most=64, ties=False)
def peaks_of_heatmap(x):
    peak = nn.functional.max_pool2d(x, 3, 1, 1) == x
    scores = (x.sigmoid() * peak).flatten(1)
    value, at = scores.topk(4)
    w = x.shape[-1]
    return value, (at // w).float().sum(1)


@model(x="float[b,3,h,w]", most=64)
def argmax_to_places(x):
    flat = x.flatten(2)
    at = flat.argmax(-1)
    return torch.stack([at % x.shape[-1], at // x.shape[-1]], -1)


@model(x="float[b,3,h,w]", most=64)
def soft_argmax(x):
    h, w = x.shape[-2:]
    p = x.flatten(2).softmax(-1).view(*x.shape)
    ys = (p.sum(3) * torch.arange(h)).sum(-1)
    xs = (p.sum(2) * torch.arange(w)).sum(-1)
    return torch.stack([xs / max(w - 1, 1), ys / max(h - 1, 1)], -1)


@model(x="bool[n,h,w]", most=64)
def boxes_of_masks(x):
    ys, xs = x.any(2).int(), x.any(1).int()
    h, w = x.shape[1:]
    return torch.stack(
        [xs.argmax(1), ys.argmax(1), w - 1 - xs.flip(1).argmax(1), h - 1 - ys.flip(1).argmax(1)], 1
    )


@model(x="bool[h,w]", most=64)
def box_of_one_mask(x):
    ys, xs = torch.where(x)
    if ys.numel() == 0:
        return torch.zeros(4, dtype=torch.int64)
    return torch.stack([xs.min(), ys.min(), xs.max(), ys.max()])


@model(x="boxes[n]", y="boxes[m]", most=131)
def generalized_overlap(x, y):
    iou = overlap(x, y)
    low = torch.min(x[:, None, :2], y[None, :, :2])
    high = torch.max(x[:, None, 2:], y[None, :, 2:])
    hull = (high - low).prod(-1) + 1e-3
    return iou - (hull - iou) / hull


@model(x="boxes[n]", s="uniform[n]", c="int[n]<4", most=131)
def best_of_each_class(x, s, c):
    out = torch.zeros(4, 4)
    for k in range(4):
        mine = c == k
        if mine.any():
            out[k] = x[mine][s[mine].argmax()]
    return out


@model(x="boxes[n]", s="uniform[n]", c="int[n]<4", most=131)
def grouped_by_class(x, s, c):
    order = torch.argsort(c * 2 - s, stable=True)
    return x[order], torch.bincount(c, minlength=4)


@model(x="boxes[n]", most=131)
def rows_sorted_from_top(x):
    order = x[:, 1].argsort(stable=True)
    x = x[order]
    gap = x[1:, 1] - x[:-1, 1]
    return x, torch.cat([torch.zeros(1), (gap > 5).float()]).cumsum(0)


@model(x="float[n,5]", most=131)
def filtered_rows(x):
    x = x[x[:, 4] > 0]
    x = x[x[:, 2] > x[:, 0]]
    return x[:, :4] * x[:, 4:]
