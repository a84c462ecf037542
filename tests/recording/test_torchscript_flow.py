"""Branches and loops of TorchScript that tensors or sizes decide: the graph has both ways."""

from __future__ import annotations

import pytest
import torch
from called import asked
from torch import nn

import hx

SIGNS = [
    torch.tensor([1.0, 2.0, 3.0]),
    torch.tensor([-1.0, -2.0, -3.0]),
    torch.tensor([5.0, -1.0, 0]),
]


class Number(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            scale, many, on = 2.0, 3, True
        else:
            scale, many, on = -0.3, 5, False
        y = x * scale + many
        if on:
            y = y.abs()
        return y


class Both(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0) and bool(x[0] > 2):
            return x + 1
        return x - 1


class Neither(nn.Module):
    def forward(self, x):
        if not bool(x.sum() > 0) or float(x[0]) > 2.0:
            return x + 1
        return x - 1


class Pair(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            both = (x, x + 1)
        else:
            both = (x * 3, x)
        a, b = both
        return a - b * 2


class Early(nn.Module):
    """Returns from the middle of a block: what the other side gives is never set."""

    def forward(self, x):
        if x.sum() > 0:
            if x[0] > 2:
                return x * 7
        return x - 1


@torch.jit.script
def chosen(x):
    if x.sum() > 0:
        return x * 2
    return x - 3


class Function(nn.Module):
    def forward(self, x):
        return chosen(x) * 2


@pytest.mark.parametrize("kind", [Number, Both, Neither, Pair, Early, Function])
def test_what_tensors_decide_and_what_the_sides_give(kind):
    model = kind()
    program = asked(model if kind is Function else torch.jit.script(model), SIGNS[0])
    assert "If" in program.ops
    for x in SIGNS:
        torch.testing.assert_close(program.run(x), model(x))


class Halving(nn.Module):
    def forward(self, x):
        while x.sum() > 0.01:
            x = x * 0.5
        return x


class Counting(nn.Module):
    """Numbers that go round, one of them no whole number, and a state of `done`."""

    def forward(self, x):
        n, s, done = 0, 0.5, False
        while not done:
            x = x * s
            n, s = n + 1, s * 0.9
            done = bool(x.abs().max() < 0.01)
        return x, n


class Breaking(nn.Module):
    def forward(self, x):
        for i in range(10):
            x = x * 0.5 + i * 0.01
            if bool(x.sum() < 0.5):
                break
        return x


class Greedy(nn.Module):
    """A decoder that goes on until it has said the last word."""

    def __init__(self):
        super().__init__()
        self.words, self.next = nn.Embedding(9, 4), nn.Linear(4, 9)

    def forward(self, x):
        n, word = 0, x[:1].argmax(-1)
        while n < 20 and bool(word.sum() != 3):
            word = self.next(self.words(word)).argmax(-1)
            n += 1
        return word, n


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        h = torch.zeros(2, 4)
        for i in range(x.size(0)):
            h = self.cell(x[i].expand(2, 4), h)
        return h


@pytest.mark.parametrize("kind", [Halving, Counting, Breaking, Greedy, Steps])
def test_a_loop_that_tensors_or_sizes_end_is_a_loop_of_the_graph(kind):
    model = kind().eval()
    program = asked(
        torch.jit.script(model), torch.rand(6, 4) + 0.5, dynamic={"x": {0: "t"}}, strict=True
    )
    assert "Loop" in program.ops
    for scale, n in ((1.0, 6), (2.0, 3), (30.0, 9), (0.001, 2), (1.0, 1)):
        x = scale * (torch.rand(n, 4) + 0.1)
        got, want = program.run(x), model(x)
        for a, b in zip(*(y if isinstance(y, (tuple, list)) else [y] for y in (got, want))):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-4, atol=1e-5)


class Stepping(nn.Module):
    """A range of which all is a value."""

    def forward(self, x):
        start, stop, step, total = int(x[0]), int(x[1]), int(x[2]), 0
        for i in range(start, stop, step):
            total += i
        return torch.tensor(total)


class Filling(nn.Module):
    """Another number of rounds at each call, and none at some."""

    def forward(self, x):
        y = torch.zeros(2)
        for i in range(int(x[0]), int(x[1])):
            y = y * 0.5 + i
        return y


@pytest.mark.parametrize("recorded", [(32, 1, -2), (1, 32, 1), (5, 1, 1)])
@pytest.mark.parametrize("kind", [Stepping, Filling])
def test_a_range_of_values_goes_either_way_and_may_be_empty(kind, recorded):
    model = torch.jit.script(kind())
    program = asked(model, torch.tensor(recorded))
    steps = [(32, 1, -2), (1, 32, 1), (1, 32, -1), (-2, 32, 1), (5, 1, -1), (1, 5, 3), (5, 5, 1)]
    for given in [*steps, (7, 0, -3), (-7, -1, 2), (-1, -9, -3)]:
        x = torch.tensor(given)
        torch.testing.assert_close(torch.as_tensor(program.run(x)), model(x))


class Either(nn.Module):
    """Two questions, the second of which is asked where the first has been denied."""

    def forward(self, x):
        if x.size(0) > 3 or x.size(1) > 4:
            return x + 1
        return x - min(x.size(0), 2) * max(x.size(1), 3)


def test_what_sizes_decide_is_right_on_every_side():
    model = Either()
    program = asked(torch.jit.script(model), torch.rand(5, 6), dynamic={"x": {0: "a", 1: "b"}})
    for a in range(1, 6):
        for b in range(1, 7):
            x = torch.rand(a, b)
            torch.testing.assert_close(program.run(x), model(x))


class Writing(nn.Module):
    """A block that writes to what is outside of it: one side is taken for good."""

    def forward(self, x):
        y = x * 1
        if x.size(0) > 3:  # here
            y[0] = 1
        return y


def test_a_block_that_writes_is_told_with_the_sizes_that_it_asked_for(line_of):
    model = torch.jit.script(Writing())
    program = hx.export(model, torch.rand(8, 2), dynamic={"x": {0: "a"}})
    (escape,) = program.report.escapes
    assert (escape.kind, escape.detail) == ("branch", "a > 3")
    assert escape.where.line == line_of(Writing.forward, "# here")
    assert program.report.promised == {"a": "a>=4"}


class Lists(nn.Module):
    def forward(self, x):
        found = [x, x + 1] * 2
        found = found + [x * 2]
        found += [x * 3]
        del found[0]
        places = [3, 1, 2]
        places.sort()
        return torch.stack(found) * places[0]


def test_lists_are_added_and_sorted():
    assert asked(torch.jit.script(Lists()), torch.rand(3)).proof.ok


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("total", torch.ones(3))

    def forward(self, x):
        self.count = self.count + 1
        self.total = self.total + x
        return self.total * self.count


def test_what_a_script_sets_is_in_the_graph_and_stays_as_it_was_in_the_module():
    model = torch.jit.script(nn.Sequential(Keeping(), Keeping()))
    program = asked(model, torch.rand(3))
    assert any("by what it keeps" in note for note in program.report.notes)
    first = getattr(model, "0")
    assert first.count == 0 and torch.equal(first.total, torch.ones(3))


def test_nodes_of_a_script_have_its_lines(line_of):
    program = asked(torch.jit.script(Pair()), SIGNS[0])
    (node,) = [node for node in program.model.graph if node.op_type == "If"]
    assert node.metadata_props["hx.source"].startswith(f"{__file__}:")


@torch.jit.script
def by_builtins(x):
    if x.size(0) > 3:
        x = abs(x) * max(x.size(0), 4) + min(abs(-x.size(1)), 3)
    return abs(x) + round(2.5)


def test_builtins_of_python_are_the_same_of_tensors():
    x = torch.randn(5, 3)
    program = hx.export(by_builtins, x, None, dynamic={"x": {0: "n>=4"}})
    for n in (4, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program.run(x), by_builtins(x))


class Written(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            total += x[i].exp() * i
        return total


class Appended(nn.Module):
    def forward(self, x):
        rows = []
        for i in range(x.size(0)):
            rows.append(x[i].exp() * i)
        return torch.stack(rows)


@pytest.mark.parametrize("kind", [Written, Appended])
def test_rounds_that_write_or_append_are_a_loop_as_in_python(kind):
    model = kind()
    program = hx.export(torch.jit.script(model), torch.randn(4, 3), None, dynamic={"x": {0: "n"}})
    assert "Loop" in [node.op_type for node in program.model.graph]
    for n in (1, 2, 7, 20):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)
