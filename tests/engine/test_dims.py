"""Sizes that may vary are carried through Python, and what Python drops is told by its line."""

from __future__ import annotations

import math

import pytest
import torch
from called import Single
from torch import nn
from torch.nn import functional as F

import hx
from hx.errors import UsageError
from hx.runtime import Session

CASES = {}


def sized(function):
    """A case: a function of x of shape [b, n, 4], right at every b and n."""
    CASES[function.__name__] = function
    return function


# Reading sizes.


@sized
def every_way_to_read(x):
    b, n, c = x.shape
    return (
        x.view(b * n, c), x.reshape(x.size(0), -1), x.view(x.size()[0], x.size(-2) * c),
        x.reshape(len(x), -1), x.reshape(x.numel()), x.view(x.nelement() // b, b),
        x.reshape(torch.numel(x), 1), x.view(*x.shape, 1), x.view(x.shape + (1,)),
        x.view((1,) + x.shape[:-1] + (2, 2)), x.reshape(x.shape[0], *x.shape[1:]),
        x.reshape(math.prod(x.shape)), x.reshape([*x.shape[:2], c]),
        x.reshape(x.size(dim=1), -1),
    )  # fmt: skip


@sized
def sizes_as_numbers(x):
    b, n, c = x.shape
    return x * b + n, x / n, x * (b * n) - n / b, x + len(x), b - x, n * x, x**b


@sized
def arithmetic(x):
    b, n = x.shape[:2]
    return (
        torch.zeros(b + 2), torch.zeros(2 * n + 1), torch.zeros(b * n - 1), torch.zeros(n // 2),
        torch.zeros(n % 3), torch.zeros(7 // n), torch.zeros(n**2), torch.zeros((n + 1) // 2 * 2),
        torch.zeros(-(-n // 2)), torch.zeros(abs(3 - n)), torch.zeros(n << 1), torch.zeros(n >> 1),
        torch.zeros(3 - n + 2 * n), torch.zeros(divmod(n, 2)), torch.zeros(b * n // n),
        torch.zeros((n - 7) // 3 + 5), torch.zeros((n - 7) % 3),
    )  # fmt: skip


@sized
def smallest_and_largest(x):
    b, n = x.shape[:2]
    return (
        x[:, : min(n, 3)], x[: max(b, 2)], torch.zeros(min(b, n, 4)), torch.zeros(max([b, n])),
        torch.zeros(max(n - 3, 0)), torch.zeros(min(x.shape)), x * max(b, n) - min(n / 2, 1.5),
    )  # fmt: skip


@sized
def floats_from_sizes(x):
    n = x.shape[1]
    return (
        x * n**-0.5, x / math.sqrt(n), x * (n / 3), x * math.sqrt(n * 2.0) ** 3, x * (n * 0.5 // 2),
        torch.zeros(math.ceil(n / 2)), torch.zeros(math.floor(n * 1.5)), x * float(2) * n,
        torch.zeros(round(n / 3)), torch.full((2,), n**0.5), torch.zeros(int(5)), x - 1 / n,
    )  # fmt: skip


@sized
def logarithms(x):
    n = x.shape[1]
    return x * math.log(n + 1), x + math.log2(n + 1), x - math.exp(-n), x * math.pow(n, 0.25)


# Using them.


@sized
def created(x):
    b, n, c = x.shape
    return (
        torch.zeros(b, n), torch.ones((n, b), dtype=torch.long), torch.full((b, 2), 7),
        torch.full([n], 1.5), torch.arange(n), torch.arange(1, n + 1), torch.arange(0, n, 2),
        torch.arange(end=n), torch.arange(start=1, end=n),
        torch.arange(n, 0, -1), torch.arange(n, dtype=torch.float32) / n, torch.eye(n),
        torch.eye(b, n), torch.linspace(0, 1, n), torch.zeros_like(x), torch.full_like(x, n),
        x.new_zeros(b, n), x.new_full((n,), b), x.new_ones((n, 1)), torch.empty(n, b).fill_(3),
        x.new(b, 2).fill_(1), x.new(x.shape).copy_(x), x.new([n, 0.5]), x.new((n,)), x.new((b, n)),
        torch.arange(n, device=x.device), torch.tensor([n, b, 3]), torch.tensor(n),
        torch.tensor([[n], [b]]) * 2, torch.linspace(-1, 1, steps=2 * n),
    )  # fmt: skip


@sized
def shaped(x):
    b, n, c = x.shape
    return (
        x.expand(2, b, n, c), x[:, :1].expand(b, n, c), x[:, :1].expand(-1, n, -1),
        x.repeat(1, 2, 1), x[0, 0].repeat(n, b), x.unsqueeze(0).expand(n, -1, -1, -1),
        x.transpose(0, 1).reshape(n, b * c), x.flatten(0, 1), x.flatten(1), x.unflatten(2, (2, 2)),
        x.flatten(0, 1).unflatten(0, (b, n)), x.permute(1, 0, 2).contiguous().view(n, -1),
        torch.broadcast_to(x[:1], (b, n, c)), x[0].expand_as(x), x.tile((2, 1)), x.view(-1, c),
        x.reshape(b, -1, 2), x.expand(x.shape), x.view_as(x), x.swapaxes(0, 1).reshape(-1, n, b),
    )  # fmt: skip


@sized
def cut(x):
    b, n, c = x.shape
    k = n // 2
    return (
        x[:, :k], x[:, k:], x[:, n - 1], x[:, -1], x[:, 1:n], x[:, : n - 1], x[:, -k:] if False else x,
        x.narrow(1, 0, n), x.narrow(1, n - 1, 1), x.split([k, n - k], 1), x.split(n, 1)[0],
        x[:, ::2], x[:, 1::2], x[:, n // 2 : n], x[b - 1], x[:, :, 0], x[:, None, 0], x[..., n - n],
        x.select(1, n - 1), torch.narrow(x, 0, 0, b), x[0 : b // 1], x[:, :n], x[:, : n + 5],
    )  # fmt: skip


@sized
def halves(x):
    y = torch.cat([x, x], 1)
    a, b = y.chunk(2, 1)
    c, d = y.split(x.shape[1], 1)
    e, f = y.split(x.size(1), dim=1)
    g, h = torch.tensor_split(y, 2, 1) if False else (a, b)
    i, j = y[:, : y.shape[1] // 2], y[:, y.shape[1] // 2 :]
    return a - b, c + d, e * f, g, h, i - j


@sized
def joined(x):
    b, n, c = x.shape
    y = torch.cat([x, torch.zeros(b, 1, c), x[:, :1]], 1)
    z = torch.stack([x, x], 1)
    return y, z, y.shape[1] * x, torch.cat([x.flatten(1), torch.ones(b, n)], -1), z.flatten(1, 2)


@sized
def padded(x):
    n = x.shape[1]
    return (
        F.pad(x, (0, 0, 0, 2)), F.pad(x, (0, 0, 0, n)), F.pad(x, (1, n, n, 0)),
        F.pad(x, (0, 0, 1, 8 - n % 8)), F.pad(x, (0, 0, 0, (-n) % 4)), F.pad(x, (0, 2 * n), value=3),
    )  # fmt: skip


@sized
def interpolated(x):
    b, n, c = x.shape
    y = x.unsqueeze(1)
    return (
        F.interpolate(y, scale_factor=2), F.interpolate(y, size=(2 * n, 6)),
        F.interpolate(y, size=(n + 1, c), mode="bilinear", align_corners=False),
        F.interpolate(y, scale_factor=(2, 1), mode="bilinear"), F.interpolate(x, size=3 * c),
        F.interpolate(y, size=y.shape[2:], mode="nearest"),
        F.interpolate(y, size=(5, 5), mode="bilinear", align_corners=True),
        F.interpolate(y, scale_factor=8 / max(b, n), mode="bilinear", recompute_scale_factor=True),
    )  # fmt: skip


@sized
def masks(x):
    n = x.shape[1]
    scores = x @ x.transpose(1, 2)
    causal = torch.tril(torch.ones(n, n)).bool()
    later = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
    steps = torch.arange(n)
    window = (steps[:, None] - steps[None, :]).abs() <= 2
    return (
        scores.masked_fill(~causal, -1e9).softmax(-1), (scores + later).softmax(-1),
        scores * (steps[None] <= steps[:, None]), torch.where(window, scores, 0.0),
        scores / math.sqrt(x.size(-1)), scores.tril(), scores.triu(n // 2),
    )  # fmt: skip


@sized
def normalised_over_sizes(x):
    b, n = x.shape[:2]
    return (
        x.sum(1) / n, x.mean(1) * n, x.sum() / (b * n), (x - x.mean((0, 1))) * b,
        F.layer_norm(x, (4,)), x.softmax(1) * n, x.cumsum(1) / torch.arange(1, n + 1)[None, :, None],
        x.var(1, unbiased=False), x.flatten(1).norm(dim=1),
    )  # fmt: skip


@sized
def positions_in_a_table(x):
    table = torch.arange(400.0).view(100, 4)
    n = x.shape[1]
    return x + table[:n], x + table[torch.arange(n)], x + F.embedding(torch.arange(n), table), (
        x + table[5 : 5 + n].unsqueeze(0)), table.narrow(0, 0, n) * 2  # fmt: skip


@sized
def windows(x):
    b, n, c = x.shape
    extra = (-n) % 3
    y = F.pad(x, (0, 0, 0, extra))
    blocks = y.view(b, (n + extra) // 3, 3, c)
    back = blocks.reshape(b, n + extra, c)[:, :n]
    return blocks.sum(2), back


@sized
def pooled(x):
    y = x.transpose(1, 2)
    return (
        F.adaptive_avg_pool1d(y, 1), F.avg_pool1d(y, 1), F.max_pool1d(y, 1, stride=1),
        F.adaptive_max_pool1d(y, 1), F.conv1d(y, torch.ones(2, 4, 1)),
        F.conv1d(F.pad(y, (1, 1)), torch.ones(2, 4, 3), stride=2),
    )  # fmt: skip


@sized
def attention(x):
    b, n, c = x.shape
    q = x.view(b, n, 2, c // 2).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    weights = torch.einsum("bhid,bhjd->bhij", q, q) * (c // 2) ** -0.5
    return out.transpose(1, 2).reshape(b, n, c), weights.softmax(-1)


@sized
def grids(x):
    b, n, c = x.shape
    ys, xs = torch.meshgrid(torch.arange(n), torch.arange(c), indexing="ij")
    return torch.stack([ys, xs], -1).view(-1, 2), ys * x, (xs + ys).unsqueeze(0).expand(b, -1, -1)


@sized
def sizes_as_outputs(x):
    b, n, c = x.shape
    return b, n * 2, n / 2, {"shape": list(x.shape), "c": c, "half": n // 2}


@sized
def indexed_by_sizes(x):
    n = x.shape[1]
    i = torch.arange(n)
    return x[:, i.flip(0)], x[:, n - 1 - i], x.index_select(1, i), x.gather(
        1, (i * 0)[None, :, None].expand(x.shape)), x.flip(1), x.roll(1, 1)  # fmt: skip


OTHER = [{"b": 1, "n": 1}, {"b": 5, "n": 8}, {"b": 4, "n": 3}]
NAMES = {"x": {0: "b", 1: "n"}}


@pytest.mark.parametrize("recorded", [(2, 5), (1, 6), (3, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_sizes_are_carried(proved, name, recorded):
    program = proved(Single(CASES[name]), torch.randn(*recorded, 4), NAMES, OTHER)
    assert [str(e) for e in program.report.escapes] == []


@pytest.mark.parametrize("name", CASES)
def test_fixed_sizes_leave_nothing_to_compute(proved, name):
    program = proved(Single(CASES[name]), torch.randn(2, 5, 4))
    ops = {n.op_type for n in program.model.graph}
    assert "Shape" not in ops and not program.report.escapes


# Names.


def shape_of(value):
    return [str(n) if not isinstance(n, int) else n for n in value.shape]


def test_the_graph_carries_the_names(proved):
    def f(x, y):
        return x @ y, torch.cat([x, x], 0), x[:, 1:], x.flatten()

    program = proved(
        f, (torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
        dynamic={"x": {0: "batch", 1: "rows"}, "y": {0: "batch", 2: "columns"}},
        sizes=[{"batch": 3, "rows": 1, "columns": 7}],
    )  # fmt: skip
    told = {v["name"]: v["shape"] for v in program.report.inputs + program.report.outputs}
    assert told == {
        "x": ["batch", "rows", 4], "y": ["batch", 4, "columns"],
        "output_0": ["batch", "rows", "columns"], "output_1": ["2*batch", "rows", 4],
        "output_2": ["batch", "max(0, rows - 1)", 4], "output_3": ["4*batch*rows"],
    }  # fmt: skip


def test_one_name_is_one_size(proved):
    def f(q, k):
        b, n = q.shape[0], k.shape[1]
        return (q @ k.transpose(1, 2)).view(b, -1, n) + q.new_zeros(k.shape[0], 1, 1)

    proved(
        f, (torch.randn(2, 3, 4), torch.randn(2, 5, 4)),
        dynamic={"q": {0: "b", 1: "i"}, "k": {0: "b", 1: "j"}},
        sizes=[{"b": 1, "i": 1, "j": 1}, {"b": 4, "i": 7, "j": 2}],
    )  # fmt: skip


def test_equal_sizes_of_two_names_are_not_the_same_size(proved):
    """Both are 3 in the recording, and that is chance."""

    def f(x, y):
        return x.sum(0)[:, None] * y.sum(0)[None], x.new_zeros(y.shape[1], x.shape[1])

    proved(
        f, (torch.randn(2, 3), torch.randn(2, 3)), dynamic={"x": {1: "n"}, "y": {1: "m"}},
        sizes=[{"n": 5, "m": 1}, {"n": 1, "m": 4}],
    )  # fmt: skip


def test_sizes_inside_containers(proved):
    def f(batch, *, extra):
        return batch["ids"].float().view(-1) * len(batch["ids"]), extra[0].sum(1) / extra[0].shape[
            1
        ]

    program = proved(
        f, ({"ids": torch.randint(0, 9, (2, 3))},), kwargs={"extra": [torch.randn(2, 4)]},
        dynamic={"batch_ids": {0: "b", 1: "s"}, "extra_0": [1]}, sizes=[{"b": 3, "s": 1}],
    )  # fmt: skip
    assert [shape_of(v) for v in program.model.graph.inputs] == [["b", "s"], [2, "extra_0_1"]]


@pytest.mark.parametrize(
    "dynamic, shape",
    [
        ({"x": {0: "batch", 2: "width"}}, ["batch", 3, "width"]),
        ({"x": [0, 2]}, ["x_0", 3, "x_2"]),
        ({"x": (0,)}, ["x_0", 3, 4]),
        ({"x": {-1: "width"}}, [2, 3, "width"]),
        ({"x": {0: None, 1: True}}, ["x_0", "x_1", 4]),
        ({"x": "batch"}, ["batch", 3, 4]),
        ({"x": 1}, [2, "x_1", 4]),
        ({"x": {}}, [2, 3, 4]),
        (None, [2, 3, 4]),
        ({"x": {0: torch.export.Dim("many"), 1: torch.export.Dim.AUTO}}, ["many", "x_1", 4]),
        ({"x": [torch.export.Dim("many"), None, torch.export.Dim.DYNAMIC]}, ["many", 3, "x_2"]),
        ({"x": {0: torch.export.Dim.STATIC, 1: "n"}}, [2, "n", 4]),
        (({0: "b"},), ["b", 3, 4]),
        ([{0: "b"}], ["b", 3, 4]),
    ],
    ids=str,
)
def test_every_form_of_dynamic(proved, dynamic, shape):
    program = proved(lambda x: x.flatten() * x.shape[0], torch.randn(2, 3, 4), dynamic=dynamic)
    (made,) = program.model.graph.inputs
    assert shape_of(made) == shape


def test_dynamic_nested_as_the_arguments_are(proved):
    def f(batch, pair):
        return batch["ids"].float().sum(1) + pair[1].sum(0), pair[0] * pair[0].shape[0]

    program = proved(
        f, ({"ids": torch.randint(0, 9, (2, 3))}, [torch.randn(3), torch.randn(4, 2)]),
        dynamic={"batch": {"ids": {1: "s"}}, "pair": [None, {0: "n"}]}, sizes=[{"s": 1, "n": 9}],
    )  # fmt: skip
    assert [shape_of(v) for v in program.model.graph.inputs] == [[2, "s"], [3], ["n", 2]]


@pytest.mark.parametrize(
    "dynamic, message",
    [
        ({"y": {0: "b"}}, "does not have: 'y'"),
        ({"xs": {0: "b"}}, "did you mean 'x'"),
        ({"x": {3: "b"}}, "axis 3 of x, which has 3 axes"),
        ({"x": {"batch": 0}}, "axis 'batch'"),
        ({"x": {0: "2b"}}, "cannot be the name of a size"),
        ({"x": {0: "b", 1: "b"}}, "'b' is 2 in x and 3 in x"),
        ({"x": 1.5}, "cannot be 1.5"),
        ({"x": {0: "b", -3: "c"}}, "says twice what axis 0 of x is"),
        ([None, {0: "b"}], "describes 2 inputs, and there are 1: x"),
        ("batch", "dynamic= cannot be 'batch'"),
    ],
    ids=str,
)
def test_what_dynamic_cannot_be(dynamic, message):
    with pytest.raises(hx.UsageError) as caught:
        hx.export(lambda x: x * 2, torch.randn(2, 3, 4), dynamic=dynamic)
    assert message in str(caught.value)


# Sizes from the contents of tensors.


def test_a_number_read_from_a_tensor_is_a_size(proved):
    def f(x, count):
        n = count.item()
        return torch.zeros(n), torch.arange(n) * 2, x[:n], x.narrow(0, 0, n), x[: n + 1] * n

    program = proved(f, (torch.randn(9), torch.tensor(4)))
    (escape,) = {e.where.line for e in program.report.escapes}
    assert escape and all(e.kind == "item" for e in program.report.escapes)
    graph = program.model
    import onnx_ir as ir

    from hx.runtime import Session

    run = Session(ir.to_proto(graph).SerializeToString()).run
    assert [len(o) for o in run({"x": torch.randn(9), "count": torch.tensor(7)})] == [7, 7, 7, 7, 8]


def test_the_whole_part_of_a_number_in_a_tensor_is_a_size(proved):
    def f(x, wanted):
        return torch.zeros(int(wanted[0]), int(wanted[1] * 2)), x * int(torch.tensor(2.5))

    program = proved(f, (torch.randn(3, 4), torch.tensor([2.5, 3.0])), {"x": {0: "n"}})
    assert {e.kind for e in program.report.escapes} == {"item"}
    shape = program.run(torch.randn(3, 4), torch.tensor([4.75, 1.5]))[0].shape
    assert shape == (4, 3)


def test_how_many_a_mask_picks_is_a_size(proved):
    def f(x):
        kept = x[x > 0]
        rows, columns = (x > 0.5).nonzero(as_tuple=True)
        return kept.view(-1, 1), kept.shape[0] * 2, torch.zeros(len(rows)), kept.numel() + x

    proved(f, torch.randn(3, 5), dynamic={"x": [0, 1]}, sizes=[{"x_0": 1, "x_1": 1}])


def test_how_many_where_picks_and_what_tracers_ask_are_sizes(proved):
    """`torch._shape_as_tensor` is what libraries call when they believe that they are traced."""

    def f(x):
        picked = x[torch.where(x > 0)[0]]
        most = torch.cat((torch.tensor([3]), torch._shape_as_tensor(picked)))
        return picked.topk(most.min().unsqueeze(0)).values

    program = proved(f, torch.arange(-2.0, 8), dynamic={"x": [0]}, sizes=[{"x_0": 3}])
    assert not program.report.escapes


def test_what_is_done_only_with_some_is_done_with_none(proved):
    """PyTorch itself does not take -1 beside 0, so models ask first; the graph does not."""

    def f(x):
        kept = x[x[:, 0] > 0]
        return kept.reshape(len(kept), -1, 2) if len(kept) > 0 else kept.unflatten(1, (-1, 2))

    rows = torch.tensor([[1.0, 2, 3, 4], [-1, 2, 3, 4], [2, 2, 3, 4]])
    program = proved(f, rows, dynamic={"x": [0]})
    assert {e.kind for e in program.report.escapes} == {"branch"}
    import onnx_ir as ir

    from hx.runtime import Session

    run = Session(ir.to_proto(program.model).SerializeToString()).run
    assert run({"x": -rows.abs()})[0].shape == (0, 2, 2)


# Zero and one.


def test_a_batch_of_none(proved):
    def f(x):
        y = F.relu(x @ torch.ones(4, 3)) + x.shape[0]
        z = torch.cat([y, y[:, :1]], 1).view(x.shape[0], 2, 2)
        w = y.clone()
        w[:, 0] = 5
        parts = x.reshape(x.shape[0], 4), x.unflatten(1, (2, -1)), x.flatten(1)
        return y, z, x.sum(0), w, *parts, x.transpose(0, 1), y.softmax(-1)

    program = proved(f, torch.randn(2, 4), dynamic={"x": {0: "b"}}, sizes=[{"b": 0}, {"b": 7}])
    assert not program.report.escapes


def test_recorded_with_a_batch_of_none(proved):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    proved(model, torch.zeros(0, 4), dynamic={"input": {0: "b"}}, sizes=[{"b": 3}])


@pytest.mark.parametrize("recorded, other", [(1, 5), (5, 1)])
def test_one_is_a_size_like_others(proved, recorded, other):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.LayerNorm(4)
            self.scale = nn.Parameter(torch.randn(4, 1, 1))

        def forward(self, x):
            y = F.max_pool2d(self.conv(x) * self.scale, 2)
            y = y + y.mean((2, 3), keepdim=True) + y.flatten(1).sum(1)[:, None, None, None]
            y = self.norm(y.permute(0, 2, 3, 1))
            return F.adaptive_avg_pool2d(y.permute(0, 3, 1, 2), 1).flatten(1), y

    program = proved(
        Model(), torch.randn(recorded, 3, 8, 6), dynamic={"x": {0: "b", 2: "h", 3: "w"}},
        sizes=[{"b": other}, {"b": other, "h": 2, "w": 11}],
    )  # fmt: skip
    assert not program.report.escapes


# What Python drops.


def escaping(function):
    ESCAPES[function.__name__] = function
    return function


ESCAPES = {}


@escaping
def int_where_no_source_is(x):
    return x * eval("int(n)", {"n": x.shape[0]})  # here: int


@escaping
def float_where_no_source_is(x):
    return x * eval("float(n)", {"n": x.shape[0]})  # here: float


@escaping
def a_branch(x):
    if x.shape[0] > 3:  # here: branch
        return x * 2
    return x


@escaping
def a_truth_value(x):
    if x.shape[0]:  # here: branch
        return x * 2
    return x


@escaping
def a_comparison_of_shapes(x):
    return x if x.shape == (2, 3) else x + 1  # here: branch


@escaping
def an_assertion(x):
    assert x.shape[0] % 2 == 0 or True  # here: branch
    return x * 2


@escaping
def a_loop(x):
    total = x
    for i in range(x.shape[0]):  # here: range
        total = total + i
    return total


@escaping
def a_loop_over_rows(x):
    total = x.sum()
    for row in x:  # here: branch
        total = total + row.max()
    return total


@escaping
def cut_into_pieces(x):
    return torch.stack([part.sum() for part in x.split(1, 0)]).sum()  # here: branch


@escaping
def a_repeated_list(x):
    return x + sum([1.0] * x.shape[0])  # here: repeat


@escaping
def trigonometry(x):
    return x * math.cos(x.shape[0])  # here: float


@escaping
def bits_of_a_size(x):
    return x * (x.shape[0] | 1)  # here: int


@escaping
def a_number_of_the_contents(x):
    return x * float(x.sum())  # here: float


@escaping
def a_branch_on_the_contents(x):
    return x if (x > 0).all() else -x  # here: bool


@escaping
def through_a_list(x):
    return x + torch.tensor(x.tolist())  # here: tolist


@escaping
def strides(x):
    return x * x.stride(1) * x.stride()[0]  # here: layout


@escaping
def squeezed(x):
    return x.squeeze(0) * 2  # here: branch


@pytest.mark.parametrize("name", ESCAPES)
def test_what_leaves_is_told_with_its_line(name, line_of, tmp_path):
    function = ESCAPES[name]
    dynamic = {"x": {0: "b"}}
    report = hx.scan(function, torch.randn(2, 3), dynamic=dynamic)
    line = line_of(function, "# here:")
    kind = open(__file__).read().splitlines()[line - 1].rpartition("# here: ")[2]  # noqa: SIM115, PTH123
    assert {(e.kind, e.where.file, e.where.line) for e in report.escapes} == {
        (kind, __file__, line)
    }
    path = tmp_path / "m.onnx"
    with pytest.raises(hx.EscapeError) as caught:
        hx.export(function, torch.randn(2, 3), path, dynamic=dynamic, strict=True)
    assert f"{__file__}:{line}" in str(caught.value) and "strict" in str(caught.value)
    assert not path.exists()


def test_sizes_that_do_not_vary_never_leave():
    for function in ESCAPES.values():
        if "content" not in function.__name__ and "list" != function.__name__[-4:]:
            assert hx.scan(function, torch.randn(2, 3)).escapes == [], function.__name__


def test_comparisons_that_are_always_the_same_are_no_branches(proved):
    def f(x, y):
        b, n = x.shape
        assert b >= 0 and n > -1 and b == x.shape[0] and x.shape == x.shape[:]
        assert x.shape[0] == y.shape[0] and not b != y.shape[0]
        assert x.flatten().shape[0] == b * n and x[:, :1].shape[0] == b
        return x + y[:, :1]

    program = proved(
        f, (torch.randn(2, 3), torch.randn(2, 5)), dynamic={"x": {0: "b", 1: "n"}, "y": {0: "b"}}
    )
    assert not program.report.escapes


# Sizes that never come.


class Thirds(nn.Module):
    """Gives fewer rows where there are not enough for three."""

    def forward(self, x):
        return torch.stack([part.mean(1) for part in x.chunk(3, 1)], 1)


@pytest.mark.parametrize(
    "said", ["s>=5", "s >= 5 <= 40", torch.export.Dim("s", min=5, max=40)], ids=str
)
def test_a_model_is_proved_within_the_limits_of_its_sizes(said):
    program = hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {0: "b", 1: said}})
    assert "s=5" in [case.name for case in program.proof.cases]
    assert any("5 <= s" in note and "no other size" in note for note in program.report.notes)
    for n in (5, 7, 30):
        x = torch.randn(3, n, 8)
        torch.testing.assert_close(program.run(x), Thirds()(x))


def test_without_limits_every_size_counts_and_the_error_says_how_to_give_them():
    with pytest.raises(hx.VerificationError, match="s>=2 in place of s"):
        hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: "s"}})


def test_a_size_outside_of_its_limits_is_a_mistake():
    with pytest.raises(UsageError, match="s is 6 in x, outside of its limits: 7 <= s <= 9"):
        hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: "s>=7<=9"}})


# What is baked in fails the proof.


def baked_int(x):
    return x.view(int(str(x.shape[0])), -1)


def baked_branch(x):
    return x * 2 if x.shape[0] > 2 else x * 3


def baked_loop(x):
    for _ in range(x.shape[0]):
        x = x + 1
    return x


def baked_by_a_float(x):
    return x * (1.0).__truediv__(x.shape[0])


def baked_count(x):
    return x * x.shape[0].bit_length()


@pytest.mark.parametrize(
    "function", [baked_int, baked_branch, baked_loop, baked_by_a_float, baked_count]
)
def test_a_baked_size_fails_the_proof_and_nothing_is_written(function, tmp_path, line_of):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"the old one")
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Single(function), torch.randn(2, 3), path, dynamic={"x": {0: "b"}})
    told = str(caught.value)
    first = function.__code__.co_firstlineno
    assert any(f"{__file__}:{first + i}" in told for i in range(1, 5)), told
    assert "b=" in told
    assert path.read_bytes() == b"the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def experts(x, choice):
    """Rows go to the expert that they chose: how many go to each is only known at run time."""
    counts = torch.nn.functional.one_hot(choice, 3).sum(0).tolist()
    parts = x[choice.argsort(stable=True)].split(counts)
    return torch.cat([part * (i + 1) for i, part in enumerate(parts)])


def test_a_list_of_counts_comes_back_as_the_sizes_of_a_split(tmp_path):
    path = tmp_path / "m.onnx"
    given = torch.randn(5, 2), torch.tensor([0, 2, 2, 1, 0])
    program = hx.export(
        experts, given, path, dynamic={"x": {0: "rows"}, "choice": {0: "rows"}}
    )  # fmt: skip
    assert [e.kind for e in program.report.escapes] == ["tolist"]
    for chosen in ([1, 1, 1], [2, 0, 0, 0, 1, 2, 0]):
        x, choice = torch.randn(len(chosen), 2), torch.tensor(chosen)
        (found,) = Session(path).run({"x": x, "choice": choice})
        torch.testing.assert_close(found, experts(x, choice))


def test_an_exported_program_keeps_the_sizes_that_it_asks_for(proved):
    """Its module calls operators by name: aten.sym_size in place of x.shape."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(2)

        def forward(self, x):
            y = self.pool(F.relu6(self.conv(x)))
            return F.glu(y, 1).reshape(x.shape[0] * 2, -1) / x.shape[2]

    x = torch.randn(2, 3, 8, 9)
    axes = {0: torch.export.Dim("b"), 2: torch.export.Dim("h", min=6)}
    program = torch.export.export(Net().eval(), (x,), dynamic_shapes={"x": axes}, strict=False)
    for graph in (program.module(), program.run_decompositions().module()):
        made = proved(graph, (x,), dynamic={"x": {0: "b", 2: "h>=6"}}, sizes=[{"b": 5, "h": 11}])
        assert not made.report.escapes


MEETING = [((3, 4, 1), (1, 2, 5)), ((1, 4, 5), (3, 2, 1)), ((2, 4, 5), (2, 2, 5))]


@pytest.mark.parametrize("shapes", MEETING)
def test_sizes_of_which_either_may_be_1_meet_beside_the_axis_that_is_taken_along(shapes):
    def model(x, y):
        return torch.take_along_dim(x, y, 1), torch.take_along_dim(y, x % 1, -2)

    given = [torch.arange(math.prod(shape)).reshape(shape) % 2 for shape in shapes]
    axes = {"x": {0: "a", 2: "c"}, "y": {0: "b", 2: "d"}}
    program = hx.export(model, tuple(given), dynamic=axes, verify=False)
    for others in MEETING:
        x, y = (torch.randint(0, 2, shape) for shape in others)
        for found, real in zip(program.run(x, y), model(x, y), strict=True):
            assert torch.equal(found, real)


def test_a_narrowed_axis_is_as_long_as_it_was_said_to_be(proved):
    def model(x):
        y = x.narrow(0, x.shape[0] // 2, 1)
        return y.squeeze(0), torch.take_along_dim(y, x.argmax(1, keepdim=True), 1)

    proved(model, torch.randn(4, 3), {"x": {0: "n"}}, [{"n": 1}, {"n": 9}])
