"""Writes into what a model keeps: caches, counters, weights, tensors of the world around it."""

from __future__ import annotations

import pytest
import torch
from called import Single
from torch import nn

import hx


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


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 8, 4))
        self.register_buffer("last", torch.zeros(1, 1, 4))
        self.register_buffer("places", torch.arange(8.0))

    def forward(self, x, at):
        self.cache[:, at] = x
        self.last = x * 2
        self.places[:] = torch.arange(8)
        return self.cache.sum(1) + self.last + self.places[: x.shape[2]]


@pytest.mark.parametrize("ran", [True, False])
def test_a_buffer_that_is_written_with_what_it_held_is_told(ran):
    model, args = Cached(), (torch.randn(1, 1, 4), torch.tensor([0]))
    if ran:
        model(*args)
    assert hx.export(model, args).report.changed_buffers == ["cache", "last"]


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
    assert torch.equal(torch.tensor(stored), before)
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

    proved(Single(twice), torch.randn(2, 300))


def test_tensors_of_the_world_are_put_to_use_and_left_alone(proved):
    table = torch.arange(4.0)
    views = [table[:2], table[2:]]

    def shared(x):
        views[0].add_(x[0, :2])
        return table * x, views[0] * 1, views[1] * 1

    kept = table.clone()
    with pytest.raises(hx.Unaccounted, match="shares memory with a recorded one"):
        proved(Single(shared), torch.randn(2, 4))
    table.copy_(kept)


class Slot(nn.Module):
    """What it computes of the sizes is kept until other ones come."""

    def __init__(self):
        super().__init__()
        self.key = self.grid = None

    def forward(self, x):
        size = x.shape[-2:]
        if self.key != size:
            self.key = size
            rows, columns = (torch.arange(n, dtype=x.dtype) for n in size)
            self.grid = rows[:, None] - columns
        return x + self.grid


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        n = x.shape[-1]
        if n not in self.cache:
            self.cache[n] = torch.arange(n, dtype=x.dtype).cos()
        return x * self.cache[n]


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, x):
        n = x.shape[-1]
        if n > self.longest:
            self.longest, self.positions = n, torch.arange(n, dtype=x.dtype).sin()
        return x + self.positions[:n]


@pytest.mark.parametrize("kind", [Slot, Table, Growing])
def test_what_a_model_kept_of_an_earlier_run_is_computed_in_the_graph(kind):
    """Everybody runs a model before it is exported: then it has what it needs at these sizes."""
    model, x = kind().eval(), torch.randn(2, 5, 7)
    model(x)
    kept = dict(vars(model))
    program = hx.export(model, x, dynamic={"x": {0: "n", 1: "h", 2: "w"}})
    assert all(vars(model)[name] is was for name, was in kept.items())
    told = "an earlier run" if kind is Growing else "treats the given sizes specially"
    assert told in program.report.notes[-1] and not program.report.promised
    for sizes in ((2, 5, 7), (1, 3, 11), (3, 12, 2)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program.run(x), kind()(x))


def test_what_no_size_mends_is_refused_as_before():
    class Wrong(nn.Module):
        def forward(self, x):
            return x * float(len(x.shape) + sum(map(int, str(x.shape[0]))))

    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Wrong(), torch.randn(3, 4), dynamic={"x": {0: "n"}})
    assert "input sets (recorded, fresh, " in str(caught.value)
