"""Indexing and masks: boolean masks, scatter, gather, index_put, nonzero."""

from __future__ import annotations

import torch

from ..listing import model


@model(x="float[n,4]")
def positive_elements(x):
    return x[x > 0]


@model(x="float[n,4]", m="bool[n]")
def masked_rows(x, m):
    return x[m]


@model(x="float[n,4]", m="bool[n]")
def mean_of_masked_rows(x, m):
    return x[m].sum(0) / m.sum().clamp(min=1)


@model(x="float[n,4]", m="bool[n]")
def both_sides_joined(x, m):
    return torch.cat([x[m], x[~m] * 2])


@model(x="float[n,4]", m="bool[n,4]")
def masked_select(x, m):
    return torch.masked_select(x, m).cumsum(0)


@model(x="float[n,4]", m="bool[n]")
def masked_assignment(x, m):
    out = x.clone()
    out[m] = 0
    return out


@model(x="float[n,4]", m="bool[n]")
def masked_rows_replaced(x, m):
    out = x.clone()
    out[m] = x[m] * 2 + 1
    return out


@model(x="float[n,4]", m="bool[n]", y="float[n,4]")
def masked_scatter(x, m, y):
    return x.masked_scatter(m[:, None].expand_as(x), y)


@model(x="float[n,4]", i="int[m]<n")
def gathered_rows(x, i):
    return x[i]


@model(x="float[n,4]", i="int[n,2]<4")
def gather_along_axis(x, i):
    return x.gather(1, i)


@model(x="float[n,4]", i="int[n]<4")
def one_of_each_row(x, i):
    return x[torch.arange(len(x)), i]


@model(x="float[n,4]", i="int[n]<4")
def scattered_ones(x, i):
    return x * torch.zeros_like(x).scatter_(1, i[:, None], 1.0)


@model(x="float[n,4]", i="int[n]<n")
def summed_by_index(x, i):
    return torch.zeros_like(x).index_add_(0, i, x)


@model(x="float[n,4]", i="int[n]<n")
def put_with_accumulate(x, i):
    return torch.zeros_like(x).index_put_((i,), x, accumulate=True)


@model(x="float[n,4]", i="int[n]<n")
def scatter_of_maxima(x, i):
    return torch.zeros_like(x).scatter_reduce(0, i[:, None].expand_as(x), x, "amax")


@model(x="float[n,4]")
def nonzero_places(x):
    return (x > 0).nonzero()


@model(x="float[n,4]")
def nonzero_as_tuple(x):
    rows, columns = torch.where(x > 0.5)
    return rows + columns, x[rows, columns]


@model(x="float[n,4]")
def count_of_nonzero(x):
    return torch.count_nonzero(x > 0, dim=0), (x > 0).nonzero().shape[0]


@model(x="float[n,4]", i="int[m]<n")
def index_select_and_fill(x, i):
    return x.index_select(0, i), x.index_fill(0, i, -1.0)


@model(x="float[n,4]")
def negative_indices(x):
    return x[-1] - x[0] + x[:, -2].sum()


@model(x="float[n,4]")
def list_of_indices(x):
    return x[[0, -1]], x[:, [2, 0]]


@model(x="float[b,n,4]", i="lengths[b]<n")
def last_valid_step(x, i):
    return x[torch.arange(x.shape[0]), i - 1]


@model(x="float[b,n]", i="lengths[b]<n")
def masked_by_lengths(x, i):
    keep = torch.arange(x.shape[1])[None] < i[:, None]
    return (x * keep).sum(1) / i


@model(x="float[b,n]", m="padding[b,n]")
def masked_softmax(x, m):
    return x.masked_fill(~m, float("-inf")).softmax(-1)


@model(x="float[b,n]", m="padding[b,n]")
def masked_softmax_or_zero(x, m):
    return x.masked_fill(~m, float("-inf")).softmax(-1).nan_to_num(0.0)


@model(x="float[b,n,4]", m="padding[b,n]")
def packed_and_unpacked(x, m):
    flat = x[m]
    out = torch.zeros_like(x)
    out[m] = flat.relu()
    return out


@model(x="float[n,4]", ties=False)
def top_rows(x):
    _, at = x.sum(1).topk(min(3, x.shape[0]))
    return x[at].sum(0)


@model(x="float[n,4]")
def rows_above_mean(x):
    score = x.mean(1)
    kept = x[score >= score.mean()]
    return kept.amax(0)


@model(x="float[n,4]")
def step_assignment(x):
    x = x.clone()
    x[::2] = x[::2] * 2
    x[1::2, 1] = -1
    return x


@model(x="float[n,4]")
def shifted_assignment(x):
    out = torch.zeros_like(x)
    out[1:] = x[:-1]
    return out


@model(x="float[n,4]")
def diagonal_assignment(x):
    out = x @ x.t()
    out.fill_diagonal_(0)
    return out


@model(x="float[n,n]")
def triangle_picked(x):
    i, j = torch.triu_indices(x.shape[0], x.shape[1], 1)
    return x[i, j]


@model(x="float[n,4]")
def last_axis_ellipsis(x):
    return x[..., None, 1:3].sum(-1)


@model(x="float[n,4]", m="bool[4]")
def masked_columns(x, m):
    return x[:, m].sum(1)


@model(x="float[b,n,4]", m="bool[b,n]")
def two_axes_masked(x, m):
    return x[m].mean(0) if m.any() else x.mean((0, 1))


@model(x="float[n,4]")
def take_and_put(x):
    flat = x.take(torch.tensor([0, 2, 3]))
    return x.put(torch.tensor([1, 0]), flat[:2] * 10)


@model(x="float[n,4]", i="int[n,4]<4")
def take_along(x, i):
    return torch.take_along_dim(x, i, 1) + x.take_along_dim(x.argsort(dim=1, stable=True), 1)


@model(x="float[n,4]", m="bool[n]")
def compacted_positions(x, m):
    at = m.cumsum(0) - 1
    return x[at.clamp(min=0)] * m[:, None]


@model(x="float[n,4]", m="bool[n]")
def first_true_row(x, m):
    return x[m.int().argmax()]


@model(x="float[n,4]", m="bool[n]")
def last_true_row(x, m):
    n = m.shape[0]
    return x[n - 1 - m.flip(0).int().argmax()]


@model(x="float[n,4]", i="int[m]<n")
def unique_rows(x, i):
    kinds, inverse, counts = torch.unique(i, return_inverse=True, return_counts=True)
    return kinds, x[kinds], inverse, counts


@model(x="float[n,4]")
def rolled(x):
    return x.roll(1, 0) - x.roll((1, -1), (0, 1)) + x.flip(0)


@model(x="float[n,4]")
def negative_step_by_flip(x):
    return x.flip(0)[::3]


@model(x="float[n,4]", m="bool[n]")
def all_hidden_rows(x, m):
    score = x.sum(1).masked_fill(~m, -1e9)
    return score.softmax(0) @ x


@model(x="float[n,4]", i="int[m]<n", j="int[m]<4")
def paired_indices_summed(x, i, j):
    out = torch.zeros_like(x)
    out[i, j] += 1
    return out, x[i, j]
