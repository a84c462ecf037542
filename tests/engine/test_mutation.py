"""Writes are followed: in place, through views, by index, into buffers, in loops."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx

FLOATS = {"x": {0: "b", 1: "n"}}
OTHER = [{"b": 1, "n": 6}, {"b": 5, "n": 7}]


class Module(nn.Module):
    """A function as a module, so that everything is seen that a model does."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def forward(self, x):
        return self.function(x)


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
    proved(Module(CASES[name]), torch.randn(3, 6))


@pytest.mark.parametrize("name", CASES)
def test_a_write_at_other_sizes(proved, name):
    proved(Module(CASES[name]), torch.randn(3, 6), dynamic=FLOATS, sizes=OTHER)


@pytest.mark.parametrize("name", CASES)
def test_a_write_recorded_with_a_batch_of_one(proved, name):
    proved(Module(CASES[name]), torch.randn(1, 6), dynamic=FLOATS, sizes=OTHER)


def test_whether_a_copy_is_made_may_depend_on_the_size(proved):
    """`contiguous` and `reshape` return a view at some sizes and a copy at others."""
    proved(Module(contiguous_is_a_view_or_not), torch.randn(3, 6))
    with pytest.raises(hx.VerificationError, match="b=1 inputs: wrong"):
        proved(Module(contiguous_is_a_view_or_not), torch.randn(3, 6), dynamic=FLOATS)


def test_places_in_memory_at_fixed_sizes(proved, line_of):
    proved(Module(strided), torch.randn(3, 6))
    with pytest.raises(hx.Unsupported, match="where they lie in memory") as caught:
        hx.export(Module(strided), torch.randn(3, 6), dynamic=FLOATS)
    assert caught.value.where.line == line_of(strided, "corner.mul_")  # who needs it after a write


# What a graph cannot say is refused, with the line.


def resized(x):
    y = x * 2
    y.resize_(2, 2)
    return y


def given_memory(x):
    y = x * 2
    y.set_(x)
    return y


def turned_by_strides(x):
    y = x * 2
    y.as_strided_((2, 2), (1, 2))
    return y


@pytest.mark.parametrize(
    "function, text", [(resized, "resize_"), (given_memory, "set_("), (turned_by_strides, "as_st")]
)
def test_other_memory_is_refused(function, text, line_of):
    with pytest.raises(hx.Unsupported, match="other memory") as caught:
        hx.export(Module(function), torch.randn(3, 6))
    assert caught.value.where.line == line_of(function, text)
    assert caught.value.where.file == __file__
    assert "hint" in str(caught.value)


def test_constants_may_change_their_memory(proved):
    def build(x):
        c = torch.zeros(6)
        first = x + c
        c.resize_(3).fill_(2)
        d = torch.empty(0).set_(torch.ones(2, 3))
        return first, x[:, :3] * c + d[0]

    proved(Module(build), torch.randn(3, 6), dynamic={"x": {0: "b"}}, sizes=[{"b": 5}])


def test_a_write_that_nobody_saw_fails_the_proof_and_says_where(tmp_path, line_of):
    def through_numpy(x):
        y = x * 2
        y.numpy()[0] = 5
        return y + 1

    path = tmp_path / "m.onnx"
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Module(through_numpy), torch.randn(3, 6), path)
    assert f"{__file__}:{line_of(through_numpy, 'numpy()')}" in str(caught.value)
    assert not path.exists()
    with pytest.raises(hx.EscapeError, match="numpy"):
        hx.export(Module(through_numpy), torch.randn(3, 6), path, strict=True)


def test_reading_an_address_is_noted(line_of):
    def addressed(x):
        y = x * 2
        y.data_ptr()
        return y

    report = hx.scan(Module(addressed), torch.randn(3))
    (escape,) = report.escapes
    assert escape.kind == "data_ptr" and escape.where.line == line_of(addressed, "data_ptr")
    with pytest.raises(hx.EscapeError):
        hx.export(Module(addressed), torch.randn(3), strict=True)


def test_random_numbers_in_place_are_drawn_and_not_frozen():
    def noisy(x):
        return x + torch.empty(3).normal_()

    program = hx.export(Module(noisy), torch.randn(3))
    assert any(node.op_type.startswith("RandomNormal") for node in program.model.graph)


def test_a_write_without_a_converter_is_missing_not_lost(line_of):
    def erfinv(x):
        y = torch.zeros_like(x)
        y.copy_(x)
        y.erfinv_()
        return y

    @hx.converter("torch.Tensor.copy_")
    def kept(op, self, src, non_blocking=False):
        op.assign(self, src)
        return src

    @hx.converter("torch.zeros_like")
    def zeros(op, input):
        return op.Mul(input, 0)

    with pytest.raises(hx.MissingConverters, match="erfinv_"):
        hx.export(Module(erfinv), torch.rand(3), packs=hx.Registry.of(kept, zeros))


# Buffers.


class Cache(nn.Module):
    """Keys and values of earlier steps, written at a position that is an input."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.register_buffer("k", torch.zeros(2, 3, 8, 4))

    def forward(self, new, pos):
        self.way(self.k, new, pos)
        return self.k.sum(-1), self.k[:, :, :4]


def by_index_copy(k, new, pos):
    k.index_copy_(2, pos, new)


def by_index(k, new, pos):
    k[:, :, pos] = new


def by_index_put(k, new, pos):
    k.permute(2, 0, 1, 3)[pos] = new.permute(2, 0, 1, 3)


def by_scatter(k, new, pos):
    k.scatter_(2, pos[None, None, :, None].expand_as(new), new)


@pytest.mark.parametrize("way", [by_index_copy, by_index, by_index_put, by_scatter])
def test_a_cache_written_at_a_position(proved, way):
    model = Cache(way)
    before = model.k.clone()
    program = proved(
        model, (torch.randn(2, 3, 2, 4), torch.tensor([3, 4])),
        dynamic={"new": {2: "t"}, "pos": {0: "t"}}, sizes=[{"t": 1}, {"t": 3}],
    )  # fmt: skip
    assert program.report.changed_buffers == ["k"]
    assert torch.equal(model.k, before)
    assert "k" in program.model.graph.initializers


def test_a_cache_written_at_one_position(proved):
    class At(Cache):
        def forward(self, new, pos):
            self.k[:, :, pos] = new
            return self.k * 1

    proved(At(None), (torch.randn(2, 3, 4), torch.tensor(3)))


def test_a_view_at_a_position_is_written_through(proved):
    class At(Cache):
        def forward(self, new, pos):
            row = self.k[:, :, pos]
            row += new
            self.k[0, 0, pos].mul_(2)
            torch.select(self.k, 2, 1).add_(1)
            return self.k * 1, row

    proved(At(None), (torch.randn(2, 3, 4), torch.tensor(3)))


def test_a_cache_filled_as_far_as_there_are_keys(proved):
    class Filled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.randn(4, 16, 8))

        def forward(self, x):
            b, t = x.shape[:2]
            self.k[:b, :t] = x
            whole = self.k[:b, :t]
            self.k[:b, t : t + 1] = 5.0
            self.k[0, t - 1] *= 2
            return whole, self.k * 2

    model = Filled()
    program = proved(
        model, torch.randn(2, 5, 8), dynamic={"x": {0: "b", 1: "t"}},
        sizes=[{"b": 4, "t": 15}, {"b": 1, "t": 1}],
    )  # fmt: skip
    assert program.report.changed_buffers == ["k"]


def test_a_module_that_counts(proved):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(1))
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("still", torch.ones(3))

        def forward(self, x):
            before = self.steps + 0
            self.steps += 1
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return x * self.steps + before + self.still, self.mean

    model = Counter()
    program = proved(model, torch.randn(2, 3), dynamic={"x": {0: "b"}}, sizes=[{"b": 5}])
    assert program.report.changed_buffers == ["mean", "steps"]
    assert model.steps.item() == 0 and model.mean.tolist() == [0, 0, 0]
    again = proved(model, torch.randn(2, 3), dynamic={"x": {0: "b"}})
    assert again.report.changed_buffers == ["mean", "steps"]


def test_a_buffer_that_is_replaced(proved):
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1, 3))

        def forward(self, x):
            self.seen = torch.cat([self.seen, x])
            return self.seen.sum(0)

    model = Growing()
    program = proved(model, torch.randn(2, 3), dynamic={"x": {0: "b"}}, sizes=[{"b": 4}])
    assert program.report.changed_buffers == ["seen"]
    assert model.seen.shape == (1, 3)


def test_a_buffer_that_does_not_change_is_not_told(proved):
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.ones(3))

        def forward(self, x):
            own = self.k.clone()
            own += x
            return own * self.k

    assert proved(Same(), torch.randn(3)).report.changed_buffers == []


def test_a_weight_scaled_in_forward_keeps_its_name_and_what_each_reader_saw(proved):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(20, 20)

        def forward(self, x):
            first = self.fc(x)
            self.fc.weight.data.mul_(0.5)
            second = self.fc(x)
            self.fc.weight.data = self.fc.weight.data + 1
            return first, second, self.fc(x)

    model = Scaled()
    before = model.fc.weight.clone()
    program = proved(model, torch.randn(2, 20))
    stored = program.model.graph.initializers["fc.weight"].const_value.numpy()
    assert torch.equal(torch.as_tensor(stored), before)
    assert torch.equal(model.fc.weight, before)


def test_a_constant_is_read_written_and_read_again(proved):
    def twice(x):
        c = torch.arange(300.0)
        first = x + c
        c[10:20] = -1
        second = x + c
        c.data.mul_(2)
        third = x + c
        c.copy_(x[0])
        return first, second, third, x + c

    proved(Module(twice), torch.randn(2, 300))


def test_tensors_of_the_world_are_put_to_use_and_left_alone(proved):
    table = torch.arange(4.0)
    views = [table[:2], table[2:]]

    def shared(x):
        views[0].add_(x[0, :2])
        return table * x, views[0] * 1, views[1] * 1

    kept = table.clone()
    with pytest.raises(hx.HxError):
        proved(Module(shared), torch.randn(2, 4))
    table.copy_(kept)


# Many tensors.


def test_ids_of_the_dead_never_mislead(proved):
    def long(x):
        total = torch.zeros(3)
        for i in range(300):
            part = (x * i).sin()
            view = part[0]
            view += 1
            total = total + part.sum(0) * 0.01
            del part, view
            scratch = torch.full((3,), float(i))
            scratch += 1
            total = total + scratch
        return total

    program = proved(Module(long), torch.randn(2, 3), dynamic={"x": {0: "b"}}, sizes=[{"b": 3}])
    assert program.report.nodes > 1000


def peak(script):
    """The most memory that a process of its own held, in MiB."""
    code = textwrap.dedent(script)
    # Otherwise glibc keeps big blocks that were freed, when small ones came to lie between them.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True,
        env=environment,
    )  # fmt: skip
    return float(out.stdout.split()[-1])


DEEP = """
    import resource
    import torch, hx
    from torch import nn

    class Deep(nn.Module):
        def forward(self, x):
            for i in range({layers}):
                x = torch.tanh(x * 1.01)
                x[:, 0] = i
                mask = torch.ones(1024, 2048).tril() * i
                x = x + mask[:1, :1]
                x.view(-1).add_(1)
            return x.sum()

    x = torch.randn(1024, 2048)
    Deep()(x.clone())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    hx.export(Deep(), x, verify=False)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_layers():
    few, many = peak(DEEP.format(layers=5)), peak(DEEP.format(layers=60))
    # Each layer makes four tensors of 8 MiB.
    assert many - few < 40, (few, many)


# A view or a copy, as sizes have it.


def flattened_rows(x):
    row = x[..., -2:]
    row.flatten(-2)[0] += 1
    return row


def raveled(x):
    rows = x[::2]
    rows.ravel()[-1] = 3
    return x * 1


def reshaped_then_written(x):
    part = x[:, 1 : x.shape[1]]
    flat = part.reshape(-1)
    part.mul_(2)
    return flat


def made_contiguous(x):
    turned = x.t()
    turned.contiguous().mul_(2)
    return turned + 0


def of_one_column(x):
    part = x[: x.shape[0] : 9]  # one row, or more
    flat = part.t().reshape(-1)
    flat.mul_(2)
    return part + 0


@pytest.mark.parametrize(
    "function",
    [of_one_column, flattened_rows, raveled, reshaped_then_written, made_contiguous],
    ids=lambda f: f.__name__,
)
def test_a_write_that_reaches_another_tensor_at_some_sizes_only_is_told(function, line_of):
    program = hx.export(function, torch.randn(5, 6), dynamic={"x": {0: "b"}}, verify=False)
    (escape,) = program.report.escapes
    assert escape.kind == "layout" and escape.where.file == __file__
    with pytest.raises(hx.HxError, match="layout"):
        hx.export(function, torch.randn(5, 6), dynamic={"x": {0: "b"}}, strict=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(-1).mul_(2).sum() + x.sum(),  # a view at any size
        lambda x: x[:, None].reshape(x.shape[0], -1).add_(1) + x,
        lambda x: x.unsqueeze(1).permute(0, 2, 1).reshape(x.shape[0], 2, 3).add_(1) * 2,
        lambda x: (x.reshape(x.shape[0], 2, 3).transpose(1, 2).contiguous().mul_(2), x * 1),
        lambda x: x[:, ::2].reshape(-1).relu_() * 2,  # nobody reads the other one
    ],
)
def test_a_write_that_reaches_the_same_tensors_at_any_size_is_not(proved, function):
    program = proved(function, torch.randn(5, 6), {"x": {0: "b"}}, [{"b": 1}, {"b": 7}])
    assert not program.report.escapes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 4:2],
        lambda x: x[:, 4:2].unsqueeze(1).transpose(0, 2),
        lambda x: x.t()[6:, 1 : x.shape[0]],
        lambda x: x[:, 6:][: x.shape[0] // 2],
    ],
)
def test_a_write_to_nothing_changes_nothing(proved, function):
    def model(x):
        y = x * 2
        function(y)[...] = 1
        function(y)[:1] = 1
        function(y).add_(1)
        return y, function(y)

    proved(model, torch.randn(5, 6), {"x": {0: "b"}}, [{"b": 2}, {"b": 7}])
