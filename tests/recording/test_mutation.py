"""Writes are followed: in place, by any spelling, and into `out=`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from writes import Written

written = Written()


@written
def add_assign(x):
    y = x * 2
    y += x
    y -= 1
    y *= x
    y /= 3
    return y, x


@written
def methods(x):
    y = x * 1
    y.mul_(2).add_(x, alpha=0.5).sub_(1).clamp_(-1, 1).neg_().abs_().sqrt_()
    return y


@written
def the_input_itself(x):
    before = x + 0
    x.mul_(3)
    return x, before


@written
def relu_in_place(x):
    y = x - 0.1
    z = F.relu(y, inplace=True)
    w = x * 2
    nn.ReLU(inplace=True)(w)
    v = x * 3
    F.leaky_relu_(v, 0.1)
    return y, z, w, torch.relu_(x * 1.0), v


@written
def out_argument(x):
    r = torch.empty_like(x)
    torch.add(x, 1, out=r)
    torch.mul(r, x, out=r)
    s = x * 0
    t = torch.exp(x, out=s)
    return r, s, t


@written
def out_into_a_view(x):
    r = torch.zeros(x.shape[0], x.shape[1])
    torch.add(x[:, 1], x[:, 0], out=r[:, 2])
    return r


@written
def integers_keep_their_dtype(x):
    n = (x * 10).long()
    n += 2
    n //= 3
    n[:, 0] = 7
    n[:, 1] = x[:, 1]
    n.mul_(2)
    return n


@written
def booleans(x):
    m = x > 0
    m &= x < 1
    m |= x < -1
    m[:, 0] = True
    m ^= x > 0.5
    return m, ~m


@written
def fill_and_zero(x):
    a, b, c = x * 1, x * 1, x * 1
    a.fill_(2.5)
    b.zero_()
    c[:, 1:3].fill_(9)
    c[0].zero_()
    return a, b, c


@written
def copies(x):
    a = torch.zeros_like(x)
    a.copy_(x)
    b = x.clone()
    b[:, :2].copy_(x[:, 2:4])
    c = x.clone()
    c.copy_(x[0])
    d = x.long()
    d.copy_(x)
    return a, b, c, d


@written
def masked_fill(x):
    y = x.clone()
    y.masked_fill_(x > 0, -1.0)
    z = x.clone()
    z.masked_fill_(x[0] > 0, 5.0)
    return y, z


@written
def swapped_and_updated(x):
    a, b = x + 1, x - 1
    a, b = b, a
    a.add_(b)
    b.copy_(a)
    a.zero_()
    return a, b


@written
def comparisons_in_place(x):
    y = x.clone()
    y.gt_(0)
    z = x.clone()
    z.lerp_(x + 1, 0.25)
    w = x.clone()
    w.addcmul_(x, x, value=0.5)
    return y, z, w


@written
def triangles_in_place(x):
    y = x.clone()
    y.tril_()
    z = x.clone()
    z.triu_(1)
    return y, z


@written
def in_place_of_what_is_composed(x):
    y = x.double()
    y.float_power_(2)
    return y


@written
def grown_by_out(x):
    r = torch.empty(0)
    torch.add(x, 1, out=r)
    return r * 2


@written
def several_outputs(x):
    values, places = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.max(x, 1, out=(values, places))
    return values, places


@written
def out_of_what_is_composed(x):
    r, s = torch.empty(0), torch.zeros(2, x.shape[0] * 2, x.shape[1])
    torch.hstack([x, x], out=r)
    torch.vstack([x, x + 1], out=s[1])
    return r * 2, s


@written
def out_of_what_a_converter_declines(x):
    low, high = torch.empty(0), torch.empty(0)
    torch.mean(x, (1,), out=low)
    torch.aminmax(x, dim=1, out=(low, high))
    return low, high - low


(
    test_a_write_at_fixed_sizes,
    test_a_write_at_other_sizes,
    test_a_write_recorded_with_a_batch_of_one,
) = written.tests()
