"""Sizes that may vary are carried through Python."""

from __future__ import annotations

import math

import pytest
import torch
from called import Single
from torch import nn
from torch.nn import functional as F

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
def common_shapes(x):
    normal = torch.distributions.MultivariateNormal
    root = torch.eye(4).expand(*x.shape[:2], 4, 4)
    unasked = {"validate_args": False}
    p, q = (
        normal(x, scale_tril=root, **unasked),
        normal(x[:1] * 2, scale_tril=2 * root[:1], **unasked),
    )
    return (
        x.new_ones(torch._C._infer_size(x.shape, x[:1].shape)),
        torch.distributions.kl_divergence(p, q),
    )


@sized
def floats_of_pytorchs(x):
    b, n, _ = x.shape
    share = torch.sym_float(b) / (torch.sym_float(n) * 1.5)
    return x * share, x * torch.sym_float(share), x.new_zeros(math.trunc(torch.sym_float(n) * 1.5))


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
def smallest_of_several(x):
    parts = [x[:, at::3] for at in range(3)]
    low = min(part.shape[1] for part in parts)
    high = max({at: len(part[0]) for at, part in enumerate(parts)}.values(), default=0)
    return (
        torch.stack([part[:, :low] for part in parts]), torch.zeros(high), torch.zeros(
            min((n + 1 for n in x.shape), default=0)), torch.zeros(max(map(len, [x, x[0]]))),
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


def test_a_narrowed_axis_is_as_long_as_it_was_said_to_be(proved):
    def model(x):
        y = x.narrow(0, x.shape[0] // 2, 1)
        return y.squeeze(0), torch.take_along_dim(y, x.argmax(1, keepdim=True), 1)

    proved(model, torch.randn(4, 3), {"x": {0: "n"}}, [{"n": 1}, {"n": 9}])
