"""Loops that go on until what is in a tensor ends them are loops in the graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx


def operators(program) -> list[str]:
    return [node.op_type for node in program.model.graph]


def same(program, model, *inputs) -> None:
    """At each of these inputs the file gives what the model gives."""
    for each in inputs:
        args = each if isinstance(each, tuple) else (each,)
        with torch.no_grad():
            want = model(*args)
        want = want if isinstance(want, tuple) else (want,)
        got = program.run(*args)
        got = got if isinstance(got, (tuple, list)) else (got,)
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


class Halved(nn.Module):
    def forward(self, x):
        times = 0
        while (x.abs() > 1).any():
            x = x / 2
            times += 1
        return x, torch.tensor(times)


def test_a_while_over_values_goes_on_as_long_as_the_data_say():
    program = hx.export(Halved(), torch.tensor([20.0, -3.0]), None, dynamic={"x": {0: "n"}})
    assert operators(program).count("Loop") == 1
    assert not [escape for escape in program.report.escapes if not escape.carried]
    inputs = [torch.zeros(2), torch.full((2,), 1.5), torch.tensor([1e30, 2.0]), torch.rand(7) * 999]
    same(program, Halved(), *inputs)
    assert any("goes on until" in note for note in program.report.notes)


def test_strict_takes_it():
    hx.export(Halved(), torch.tensor([20.0, -3.0]), None, strict=True)


class Root(nn.Module):
    """Newton's method, with what ends it in the middle of a round."""

    def __init__(self, most: int, old: bool) -> None:
        super().__init__()
        self.most, self.old = most, old

    def forward(self, a):
        x = a
        for _ in range(self.most):
            new = 0.5 * (x + a / x)
            if (new - x).abs().max().item() < 1e-3:
                break
            x = new
        return x if self.old else new


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("most", [7, 30])
def test_a_for_loop_that_is_left_early_ends_at_its_last_round_too(most, old):
    model = Root(most, old)
    program = hx.export(model, torch.tensor([20.0, 3.0]), None)
    assert "Loop" in operators(program)
    # At once; after a few rounds; never.
    same(program, model, torch.ones(2), torch.tensor([5000.0, 2.0]), torch.tensor([1e30, 9.0]))


class Greedy(nn.Module):
    """Decodes until all rows have ended, or 12 tokens are there."""

    def __init__(self, stop: int, first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.cell = nn.Embedding(12, 16), nn.GRUCell(16, 16)
        self.out, self.stop, self.first = nn.Linear(16, 12), stop, first

    def forward(self, h):
        token = torch.zeros(h.shape[0], dtype=torch.long)
        tokens = [token]
        for _ in range(12):
            h = self.cell(self.embed(token), h)
            token = self.out(h).argmax(-1)
            if self.first and (token == self.stop).all():
                break
            tokens.append(token)
            if not self.first and (token == self.stop).all():
                break
        return torch.stack(tokens, 1), h


def stops(model: nn.Module, states: list[torch.Tensor]) -> set[int]:
    return {model(state)[0].shape[1] for state in states}


@pytest.mark.parametrize("first", [True, False])
def test_tokens_are_as_many_as_there_are_until_the_last(first):
    torch.manual_seed(1)
    states = [torch.randn(1, 16) * scale for scale in (0.01, 0.1, 1, 2, 3, 5, 9) for _ in range(6)]
    stop = max(range(12), key=lambda n: len(stops(Greedy(n, first), states)))
    model = Greedy(stop, first)
    assert len(stops(model, states)) > 2
    program = hx.export(model, states[0], None, dynamic={"h": {0: "b"}})
    # A list that is shorter than what was there before the first round is joined way by way.
    assert operators(program).count("If" if first else "Loop") == 1
    same(program, model, *states, torch.randn(3, 16))


class Placed(nn.Module):
    """Goes on behind what was given, at positions of a table, until all rows have ended."""

    def __init__(self, place) -> None:
        super().__init__()
        self.next = nn.Parameter(torch.roll(torch.eye(12), 1, 1) * 5)
        self.places, self.place = nn.Embedding(64, 12), place
        self.places.weight.data.mul_(0.01)

    def forward(self, ids):
        x, begins = self.next[ids], ids.shape[1]
        for i in range(6):
            token = x[:, -1:].argmax(-1)
            ids = torch.cat([ids, token], 1)
            if (token == 3).all():
                break
            x = self.next[token] + self.place(self.places, begins, i)
        return ids


@pytest.mark.parametrize(
    "place",
    [
        lambda table, begins, i: table.weight[i],
        lambda table, begins, i: table.weight[begins + i],
        lambda table, begins, i: table(torch.tensor([i])),
        lambda table, begins, i: table(torch.tensor([begins + i])),
    ],
    ids=["counted", "behind_a_size", "looked_up", "looked_up_behind_a_size"],
)
def test_positions_go_on_until_the_data_end_them(place):
    torch.manual_seed(0)
    model = Placed(place).eval()
    ids = torch.tensor([[5, 5, 5], [4, 6, 7]])
    program = hx.export(model, ids, None, dynamic={"ids": {0: "b", 1: "t"}})
    assert operators(program).count("Loop") == 1
    assert {model(torch.tensor([[k, k]])).shape[1] for k in range(12)} == {3, 4, 5, 6, 7, 8}
    same(program, model, *(torch.tensor([[k] * n]) for k in range(12) for n in (1, 2, 5)))


class Growing(nn.Module):
    """What goes from round to round is longer in each."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.key, self.embed, self.out = nn.Linear(8, 8), nn.Embedding(10, 8), nn.Linear(8, 10)

    def forward(self, x):
        keys, asked, found = self.key(x), x[:, -1:], []
        while True:
            mixed = torch.softmax(asked @ keys.transpose(1, 2), -1) @ keys
            token = self.out(mixed)[:, 0].argmax(-1)
            found.append(token)
            if (token < 5).all() or len(found) >= 20:
                break
            asked = self.embed(token)[:, None]
            keys = torch.cat([keys, self.key(asked)], 1)
        tokens = torch.stack(found, 1)
        return tokens, keys, tokens.float() * 2, keys.mean(1), torch.flip(keys, [1])[:, ::2]


def test_a_cache_grows_from_round_to_round():
    torch.manual_seed(3)
    model, inputs = Growing(), [torch.randn(1, n, 8) * 3 for n in (4, 4, 4, 4, 9, 2, 1)]
    program = hx.export(model, inputs[0], None, dynamic={"x": {1: "t"}})
    assert "Loop" in operators(program)
    same(program, model, *inputs)


class Late(nn.Module):
    def forward(self, x):
        times = 0
        while x.abs().max() > 1:
            x = x / 2 if times < 7 else x / 3
            times += 1
        return x


class Bits(nn.Module):
    """Of how many rounds there were: 3, 2, 2, 3, 2, 3, 3, 2, 2, 3 and so on."""

    def forward(self, x):
        times = 0
        while x.abs().max() > 1:
            x = x / 2 if times.bit_count() % 2 else x / 3
            times += 1
        return x


class Parity(nn.Module):
    def forward(self, x):
        times = 0
        while x.abs().max() > 1:
            x = x / 2 if times % 2 else x / 3
            times += 1
        return x


class Settled(nn.Module):
    """Until another round changes nothing, or next to nothing."""

    def __init__(self, nearly: bool) -> None:
        super().__init__()
        self.nearly = nearly

    def forward(self, x):
        v = torch.ones(x.shape[1])
        for _ in range(60):
            w = (x.T @ (x @ v)).clamp(min=0) + 1
            w = (w / w.max()).round(decimals=3)
            if torch.allclose(w, v, atol=1e-4) if self.nearly else w.equal(v):
                break
            v = w
        return v


@pytest.mark.parametrize("nearly", [True, False])
def test_until_two_tensors_are_the_same(nearly):
    model = Settled(nearly)
    torch.manual_seed(1)
    program = hx.export(model, torch.randn(6, 4), None, dynamic={"x": {0: "n"}})
    assert "Loop" in operators(program)
    same(program, model, *(torch.randn(n, 4) for n in (6, 3, 9, 20)), torch.zeros(2, 4))


def test_rounds_that_take_turns():
    program = hx.export(Parity(), torch.randn(2, 3) * 50)
    same(program, Parity(), *(torch.randn(2, 3) * 10.0**n for n in range(-1, 12)))


@pytest.mark.parametrize("model", [Late(), Bits()])
def test_rounds_that_are_not_alike_are_no_loop(model):
    with pytest.raises(hx.VerificationError, match="the branches cannot be merged into one graph"):
        hx.export(model, torch.tensor([20.0, -3.0]), None)


class Layers(nn.Module):
    """The same line in each of many layers, which ends nothing."""

    def forward(self, x):
        for _ in range(9):
            if x.max() > 1:
                x = x * 0.5
            x = x + 0.01
        return x


def test_a_line_that_is_asked_often_is_no_loop_for_that():
    try:
        program = hx.export(Layers(), torch.tensor([0.1, 0.2]), None)
    except hx.HxError:
        return  # nine branches, which are too many ways
    assert "Loop" not in operators(program)


class Unending(nn.Module):
    """Goes on for ever on zeros."""

    def forward(self, n):
        steps = torch.zeros((), dtype=torch.long)
        while n != 1:
            n = torch.where(n % 2 == 0, n // 2, 3 * n + 1)
            steps = steps + 1
        return steps


def test_a_model_that_never_ends_on_other_inputs_is_given_up_there():
    program = hx.export(Unending(), torch.tensor(7), None)
    same(program, Unending(), torch.tensor(27), torch.tensor(1))
    assert any("not through in time" in note for note in program.report.notes)


class Branching(nn.Module):
    """An `if` in rounds that data end."""

    def forward(self, x):
        while x.abs().max() > 1:
            x = x / 2
            if x.sum() > 0:
                x = x - 0.1
        return x


def test_sides_within_rounds_that_data_end_are_selected_between():
    program = hx.export(Branching(), torch.tensor([200.0, -3.0]), None)
    same(program, Branching(), torch.tensor([-200.0, 3.0]), torch.tensor([0.5, 0.2]))


class OtherShapes(nn.Module):
    """An `if` whose sides leave different shapes."""

    def forward(self, x):
        while x.abs().max() > 1:
            x = x / 2
            if x.sum() > 0:
                x = torch.cat([x, x[:1] - 0.1])
        return x


def test_what_is_asked_within_rounds_that_data_end_is_named():
    with pytest.raises(hx.HxError) as refused:
        hx.export(OtherShapes(), torch.tensor([200.0, -3.0]), None)
    first = OtherShapes.forward.__code__.co_firstlineno
    told = str(refused.value)
    assert f"{__file__}:{first + 1} and {__file__}:{first + 3} are asked again and again" in told
    assert "torch.where" in told
