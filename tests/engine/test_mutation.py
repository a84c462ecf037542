"""Writes are followed: in place, through views, by index, into buffers, in loops."""

from __future__ import annotations

import pytest
import torch
from called import Single
from torch import nn
from torch.nn import functional as F

import hx

FLOATS = {"x": {0: "b", 1: "n"}}
OTHER = [{"b": 1, "n": 6}, {"b": 5, "n": 7}]


CASES = {}


def written(function):
    CASES[function.__name__] = function
    return function


# In place, by any spelling.


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


# By index.


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


# Through views, seen later through the base and through other views.


@written
def slice_view(x):
    y = x.clone()
    a, b = y[:, 1:3], y[:, 2:4]
    a.mul_(2)
    b.add_(1)
    return y, a, b


@written
def select_view(x):
    y = x.clone()
    a = y[:, 1]
    c = y.select(1, 2)
    a.add_(10)
    c.zero_()
    y[:, 1] += 1
    return y, a, c


@written
def reshape_view(x):
    y = x.clone()
    flat = y.view(-1)
    flat[::2] = 7
    z = y.reshape(-1)
    z[1] = 8
    return y, flat, z


@written
def transposed_view(x):
    y = x.clone()
    t = y.t()
    t[1] = x.t()[0]
    u = y.transpose(0, 1)
    u.mul_(2)
    v = y.permute(1, 0)
    return y, t, u, v, y.T, y.mT


@written
def chunks(x):
    y = x[:, :4].clone()
    a, b = y.chunk(2, dim=1)
    b.add_(a)
    a *= 3
    return y, a, b


@written
def splits(x):
    y = x[:, :4].clone()
    a, b, c = y.split([1, 2, 1], dim=1)
    b.copy_(b.flip(1))
    c += a
    p, q = torch.split(y, 2, 1)
    q -= p
    return y, a, b, c, p, q


@written
def unbound(x):
    y = x[:, :3].clone()
    a, b, c = y.unbind(1)
    a += 1
    c.copy_(b)
    return y, a, b, c


@written
def iterated(x):
    y = x.new_ones(4, x.shape[0]) * x[:, 0]
    for i, row in enumerate(y):
        row.mul_(i)
    return y


@written
def narrowed(x):
    y = x.clone()
    a = y.narrow(1, 1, 2)
    a.fill_(3)
    b = y.narrow(1, -2, 2)
    b.add_(1)
    return y, a, b


@written
def squeezed(x):
    y = x[:, :1].clone()
    a = y.squeeze(1)
    a += 5
    b = y.unsqueeze(0)
    b *= 2
    c = y.unsqueeze(-1).squeeze(1)
    c -= 1
    return y, a, b, c


@written
def diagonals(x):
    y = x[:, :3].t() @ x[:, :3]
    y.diagonal().fill_(1)
    torch.diagonal(y, 1).add_(2)
    y.fill_diagonal_(4)
    return y, y.diagonal()


@written
def expanded_base(x):
    y = x[:1].clone()
    wide = y.expand(3, -1)
    y += 1
    return wide, y


@written
def detached(x):
    y = x.clone()
    d = y.detach()
    d.mul_(2)
    y.data.add_(1)
    y.data[:, 0] = 3
    return y, d


@written
def views_of_views(x):
    y = x.clone()
    a = y[:, 1:5]
    b = a[:, 1:3]
    c = b.t()[0]
    c.fill_(4)
    a[:, 0] = 6
    b += 1
    return y, a, b, c


@written
def flattened(x):
    y = x.clone().view(x.shape[0], 1, -1)
    f = y.flatten(1)
    f[:, 0] = 2
    g = f.unflatten(1, (1, -1))
    g[:, :, 1] = 3
    return y, f, g


@written
def movedims(x):
    y = x.clone().unsqueeze(1)
    a = y.movedim(2, 0)
    a[0] = 4
    b = y.swapaxes(0, 2)
    b[1] = 5
    return y, a, b


@written
def written_then_read_between(x):
    y = x.clone()
    v = y[:, :2]
    first = v + 0
    y.add_(1)
    second = v + 0
    v.mul_(2)
    third = y + 0
    return first, second, third, v


@written
def base_dies_before_the_view(x):
    v = (x * 2)[:, 1:3]
    w = v[:, :1]
    v += 1
    return v, w


def contiguous_is_a_view_or_not(x):
    y = x.clone()
    a = y.contiguous()
    a += 1
    b = y.t().contiguous()
    b += 1
    c = y.reshape(y.shape)
    c *= 2
    d = y.t().reshape(-1)
    d *= 0
    e = y.float()
    e -= 1
    f = y.double()
    f -= 1
    g = y.to(torch.float32)
    g *= 3
    return y, a, b, c, d, e, f, g


@written
def in_place_shape(x):
    y = x.clone()
    y.unsqueeze_(1)
    y.squeeze_(1)
    y.t_()
    z = x.clone()
    z.transpose_(0, 1)
    return y + 1, z * 2


@written
def list_of_slices(x):
    y = torch.zeros(x.shape[0], 4)
    parts = [y[:, i] for i in range(4)]
    for i, part in enumerate(parts):
        part.copy_(x[:, i] * i)
    return y, parts


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


@written
def a_new_tensor_with_traced_parts(x):
    m = torch.zeros(2, 2)
    m[0, 0] = x[0, 0]
    m[0, 1] = x.sum()
    m[1] = x[0, :2]
    return m, m.sum()


@written
def constants_written_between_reads(x):
    c = torch.ones(3)
    a = x[:, :3] * c
    c.mul_(2)
    b = x[:, :3] * c
    c[0] = 10
    d = x[:, :3] + c
    return a, b, d, c


@written
def constant_views_written(x):
    c = torch.zeros(2, 3)
    row = c[0]
    a = x[:, :3] + row
    c += 1
    b = x[:, :3] + row
    row.fill_(5)
    d = x[:, :3] + c[0] + c[1]
    c[0, 1] = x[0, 0]
    e = x[:, :3] + row
    return a, b, d, e, c


@written
def rows_swapped(x):
    y = x.clone()
    y[:, [0, 1]] = y[:, [1, 0]]
    t = y[:, 2].clone()
    y[:, 2] = y[:, 3]
    y[:, 3] = t
    return y


@written
def overlapping_windows(x):
    y = x.clone()
    w = y.unfold(1, 2, 2)
    y += 1
    return w, y


@written
def complex_like_pairs(x):
    y = x[:, :4].clone().view(-1, 2, 2)
    re, im = y[..., 0], y[..., 1]
    old = re.clone()
    re.mul_(2).sub_(im)
    im.add_(old)
    return y


@written
def a_corner_of_constants(x):
    y = x.clone()
    corner = y[:, 1:3]
    corner.zero_()
    corner.add_(2).clamp_(-1, 1)
    y.mul_(3)
    y[:, 0] = 1
    edge = y[:, 0]
    edge += 1
    return y, corner, edge


@written
def a_whole_of_constants(x):
    y = x.clone()
    left, right = y[:, :3], y[:, 3:]
    y.fill_(2)
    y.add_(1)
    left[:, 0] = x[:, 0]
    right.mul_(2)
    return y, left, right


# What keeps shape changes apart from writes.


@written
def a_view_of_what_is_turned_later(x):
    y = x.clone()
    v = y[:, 0]
    y.t_()
    v.add_(1)
    y[1] = 5
    return y, v


@written
def turned_in_place_with_views(x):
    y = x.clone()
    v = y[:, 1:3]
    y.unsqueeze_(0)
    y.mul_(2)
    v.t_()
    v[0] = 9
    y.squeeze_(0).transpose_(0, 1)
    v.swapaxes_(0, 1)
    v += 1
    return y, v


@written
def data_replaced(x):
    y, z = x * 1, x * 2
    w = y.view(-1)
    y.data = z
    y.add_(1)
    w.mul_(3)
    return y, z, w


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
    torch.mean(x, (0, 1), out=low)
    torch.aminmax(x, dim=1, out=(low, high))
    return low, high - low


@written
def in_place_of_what_is_composed(x):
    y = x.double()
    y.float_power_(2)
    return y


@written
def by_lists(x):
    a, b, c = x * 1, x * 2, x * 3
    a[:, [x.shape[1] - 1, 0]] = 0.5
    b[:, [True] + [False] * (c.shape[1] - 1)] = x[:, :1]
    c[:, range(2)] = 7
    return a, b, c


# What a view is, at fixed sizes, may be seen in memory alone.


def strided(x):
    y = x.clone()
    corner = torch.as_strided(y, (2, 2), (6, 1), 1)
    y.add_(1)
    corner.mul_(3)
    y[0, 1] = 7
    return y, corner, y.as_strided((3, 6), (6, 1))


@pytest.mark.parametrize("name", CASES)
def test_a_write_at_fixed_sizes(proved, name):
    proved(Single(CASES[name]), torch.randn(3, 6))


@pytest.mark.parametrize("name", CASES)
def test_a_write_at_other_sizes(proved, name):
    proved(Single(CASES[name]), torch.randn(3, 6), dynamic=FLOATS, sizes=OTHER)


@pytest.mark.parametrize("name", CASES)
def test_a_write_recorded_with_a_batch_of_one(proved, name):
    proved(Single(CASES[name]), torch.randn(1, 6), dynamic=FLOATS, sizes=OTHER)


def test_whether_a_copy_is_made_may_depend_on_the_size(proved):
    """`contiguous` and `reshape` return a view at some sizes and a copy at others."""
    proved(Single(contiguous_is_a_view_or_not), torch.randn(3, 6))
    with pytest.raises(hx.VerificationError, match="b=1 inputs: wrong"):
        proved(Single(contiguous_is_a_view_or_not), torch.randn(3, 6), dynamic=FLOATS)


def test_places_in_memory_at_fixed_sizes(proved, line_of):
    proved(Single(strided), torch.randn(3, 6))
    with pytest.raises(hx.Unsupported, match="where they lie in memory") as caught:
        hx.export(Single(strided), torch.randn(3, 6), dynamic=FLOATS)
    assert caught.value.where.line == line_of(strided, "corner.mul_")  # who needs it after a write
