"""Writes by index: slices, masks, lists, tensors; what is filled piece by piece."""

from __future__ import annotations

import torch
from writes import Written

written = Written()


@written
def whole(x):
    y = x.clone()
    y[:] = 2
    z = x.clone()
    z[...] = x + 1
    return y, z


@written
def column(x):
    y = x.clone()
    y[:, 0] = 1.5
    y[:, -1] = x[:, 0]
    y[1 - 1] = x[0] * 2
    return y


@written
def slices(x):
    y = x.clone()
    y[:, 1:3] = x[:, 0:2]
    y[:, -2:] = 4
    y[:, :-3] = -1
    return y


@written
def steps(x):
    y = x.clone()
    y[:, ::2] = 0
    y[:, 1::3] = x[:, :1]
    z = x.clone()
    z[::2, 1:4:2] = 8
    return y, z


@written
def new_axes_and_ellipsis(x):
    y = x.clone()
    y[..., 0] = 3
    y[None, :, 1] = x[:, 2]
    y[..., None, 2] = x[:, :1]
    return y


@written
def broadcast_value(x):
    y = x.clone()
    y[:, 1:4] = x[:, :1]
    z = x.clone()
    z[:] = x[0]
    w = x.clone()
    w[:, 2] = x[:1, 0]
    return y, z, w


@written
def mask_with_a_number(x):
    y = x.clone()
    y[y > 0] = 0.5
    y[y < -1] += 1
    z = x.clone()
    z[x[:, 0] > 0] = 7
    return y, z


@written
def mask_with_a_tensor(x):
    y = x.clone()
    y[x > 0] = x[x > 0] * 2
    z = x.clone()
    rows = x[:, 0] > 0
    z[rows] = x[rows] + 1
    return y, z


@written
def mask_beside_a_slice(x):
    y = x.clone()
    y[x[:, 0] > 0, 1] = 4
    y[:, x[0] > 0] = 6
    return y


@written
def index_lists(x):
    y = x.clone()
    y[:, [0, 2]] = 5
    y[:, [1, 3]] = x[:, [3, 1]]
    return y


@written
def index_tensors(x):
    y = x.clone()
    i = torch.arange(x.shape[0])
    y[i, i % 3] = 1
    y[i, -i - 1] = x[:, 0]
    y[i] = y[i] + 1
    return y


@written
def index_put(x):
    y = x.clone()
    i = torch.arange(x.shape[0])
    y.index_put_((i, i % 4), x[:, 1])
    y.index_put_((i, i % 2), x[:, 0], accumulate=True)
    return y, x.index_put((i, i), x[:, 0])


@written
def index_copy_fill_add(x):
    y, z, w = x.clone(), x.clone(), x.clone()
    at = torch.tensor([2, 0])
    y.index_copy_(1, at, x[:, :2])
    z.index_fill_(1, at, 3.0)
    w.index_add_(1, at, x[:, 1:3])
    return y, z, w


@written
def scatters(x):
    at = (x[:, :2] > 0).long()
    y = x.clone().scatter_(1, at[:, :1], x[:, 1:2])
    z = x.clone().scatter_(1, at[:, :1] + 1, 2.0)
    w = x.clone().scatter_add_(1, at, x[:, :2])
    return y, z, w


@written
def masked_scatter(x):
    return x.clone().masked_scatter_(x > 0, x * 2 + 1)


@written
def one_number(x):
    y = x.clone()
    y[0, 0] = 3
    y[-1, -1] = x[0, 0]
    y[0][1] = 4
    return y


@written
def add_into_an_index(x):
    y = x.clone()
    y[:, 0] += 1
    y[:, 1:3] *= x[:, :2]
    y[0] -= y[-1]
    return y


@written
def by_lists(x):
    a, b, c = x * 1, x * 2, x * 3
    a[:, [x.shape[1] - 1, 0]] = 0.5
    b[:, [True] + [False] * (c.shape[1] - 1)] = x[:, :1]
    c[:, range(2)] = 7
    return a, b, c


@written
def rows_swapped(x):
    y = x.clone()
    y[:, [0, 1]] = y[:, [1, 0]]
    t = y[:, 2].clone()
    y[:, 2] = y[:, 3]
    y[:, 3] = t
    return y


@written
def filled_in_a_loop(x):
    out = torch.empty(x.shape[0], 4)
    state = torch.zeros(x.shape[0])
    for i in range(4):
        state = state * 0.5 + x[:, i]
        out[:, i] = state
    return out, state


@written
def time_steps(x):
    out = x.new_zeros(4, x.shape[0], 2)
    h = x.new_zeros(x.shape[0], 2)
    for i in range(4):
        h = torch.tanh(h + x[:, i : i + 1])
        out[i] = h
    return out.transpose(0, 1)


@written
def cumulative(x):
    y = x.clone()
    for i in range(1, 4):
        y[:, i] += y[:, i - 1]
    return y


(
    test_a_write_at_fixed_sizes,
    test_a_write_at_other_sizes,
    test_a_write_recorded_with_a_batch_of_one,
) = written.tests()
