"""Writes through views, seen later through the base and through other views."""

from __future__ import annotations

import pytest
import torch
from called import Single
from writes import FLOATS, Written

import hx

written = Written()


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


@written
def list_of_slices(x):
    y = torch.zeros(x.shape[0], 4)
    parts = [y[:, i] for i in range(4)]
    for i, part in enumerate(parts):
        part.copy_(x[:, i] * i)
    return y, parts


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


# What keeps shape changes apart from writes.


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


(
    test_a_write_at_fixed_sizes,
    test_a_write_at_other_sizes,
    test_a_write_recorded_with_a_batch_of_one,
) = written.tests()


# What a view is, at fixed sizes, may be seen in memory alone.


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


def test_whether_a_copy_is_made_may_depend_on_the_size(proved):
    """`contiguous` and `reshape` return a view at some sizes and a copy at others."""
    proved(Single(contiguous_is_a_view_or_not), torch.randn(3, 6))
    program = hx.export(Single(contiguous_is_a_view_or_not), torch.randn(3, 6), dynamic=FLOATS)
    assert program.report.promised == {"b": "b>=2", "n": "n>=2"}


def strided(x):
    y = x.clone()
    corner = torch.as_strided(y, (2, 2), (6, 1), 1)
    y.add_(1)
    corner.mul_(3)
    y[0, 1] = 7
    return y, corner, y.as_strided((3, 6), (6, 1))


def test_places_in_memory_at_fixed_sizes(proved, line_of):
    proved(Single(strided), torch.randn(3, 6))
    with pytest.raises(hx.Unsupported, match="where they lie in memory") as caught:
        hx.export(Single(strided), torch.randn(3, 6), dynamic=FLOATS)
    assert caught.value.where.line == line_of(strided, "corner.mul_")  # who needs it after a write


def test_strided_views_of_what_a_model_fills_itself(proved):
    """At fixed sizes their converter says nothing of them: their place in memory does."""

    def body(x):
        table = x.new_ones(4, 4)
        corner, row = table.as_strided((3, 2), (1, 4)), table.as_strided((2,), (1,))
        table[0] = x[0, 0]
        row.mul_(2)
        return x + corner * 3 + row.sum(), x.new_ones(4, 4).as_strided((3, 2), (1, 4)).sum() + table

    proved(body, torch.randn(3, 2))


def test_a_view_whose_size_came_in_a_tensor(proved):
    def function(x, mask):
        many = mask.sum(1).max()
        y = (x.unsqueeze(1) + torch.zeros(many)[:, None]).view(x.shape[0], many, x.shape[1])
        y[:, 0] = 3.0
        return y * 1

    x, mask = torch.randn(3, 5), torch.zeros(3, 5, dtype=torch.long)
    mask[:, :2] = 1
    program = proved(function, (x, mask), {"x": {0: "b"}, "mask": {0: "b"}})
    x, mask = torch.randn(4, 5), torch.ones(4, 5, dtype=torch.long)
    torch.testing.assert_close(program.run(x, mask), function(x, mask))
