"""A layer that a value picks is any of them: `self.experts[e]`, with `e` out of a tensor."""

from __future__ import annotations

import copy

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import hx
from hx.errors import VerificationError


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate = nn.Linear(8, 12, bias=False), nn.Linear(8, 12, bias=False)
        self.down, self.act = nn.Linear(12, 8), nn.SiLU()

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Each token goes to two experts; those that no token goes to are not gone over."""

    def __init__(self, hit):
        super().__init__()
        self.gate, self.hit = nn.Linear(8, 4), hit
        self.experts = nn.ModuleList(Expert() for _ in range(4))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for e in self.hit(chosen):
            token, place = torch.where(chosen == e)
            out.index_add_(0, token, self.experts[e](x[token]) * weights[token, place, None])
        return out


def rows(chosen):
    return (F.one_hot(chosen, 4).sum((0, 1)) > 0).nonzero()


def numbers(chosen):
    return torch.unique(chosen).tolist()


def equal(program, model, *inputs):
    torch.testing.assert_close(program.run(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("hit", [rows, numbers, torch.unique])
def test_experts_that_tokens_go_to(hit):
    model = Mixture(hit).eval()
    program = hx.export(model, torch.randn(24, 8), dynamic={"x": {0: "n"}})
    for n in (1, 2, 61):
        equal(program, model, torch.randn(n, 8))
    stacked = {each.name: each.shape for each in program.model.graph.initializers.values()}
    assert stacked["experts.up.weight"] == (4, 12, 8)
    assert not any(name.startswith("experts.0") for name in stacked)


class Heads(nn.Module):
    def __init__(self, make, kind=nn.ModuleList):
        super().__init__()
        self.heads = kind(make() for _ in range(3))
        for buffer in (b for b in self.buffers() if b.is_floating_point()):
            buffer.uniform_(0.5, 2)

    def forward(self, x, k):
        found = self.heads[k](x)
        return found[0] if isinstance(found, tuple) else found


def normed():
    return nn.Sequential(nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.GELU())


@pytest.mark.parametrize(
    "make, x",
    [
        (lambda: nn.Linear(8, 3), torch.randn(5, 8)),
        (normed, torch.randn(2, 4, 9, 9)),
        (lambda: nn.GRU(4, 5, batch_first=True), torch.randn(2, 6, 4)),
        (lambda: nn.LSTM(4, 5, 2, bidirectional=True), torch.randn(6, 2, 4)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 6, 8)),
        (lambda: nn.Embedding(10, 4), torch.arange(8).reshape(2, 4)),
        (lambda: nn.LayerNorm(8), torch.randn(5, 8)),
    ],
)
def test_a_head_that_an_input_picks(make, x):
    model = Heads(make).eval()
    before = copy.deepcopy(model.state_dict())
    program = hx.export(model, (x, torch.tensor(1)), dynamic={"x": {0: "n"}})
    for k in (0, 1, 2, -1, -3):
        equal(program, model, torch.cat([x, x[:1]]), torch.tensor(k))
    assert all(
        torch.equal(was, now) for was, now in zip(before.values(), model.state_dict().values())
    )
    assert not program.report.escapes


@pytest.mark.parametrize("k", [torch.tensor([1]), torch.tensor(1, dtype=torch.uint8)])
def test_the_index_may_have_an_axis_or_few_bits(k):
    model = Heads(lambda: nn.Linear(8, 3)).eval()
    program = hx.export(model, (torch.randn(5, 8), k))
    equal(program, model, torch.randn(5, 8), torch.zeros_like(k))


def test_in_a_sequential_and_as_a_number():
    class Number(Heads):
        def forward(self, x):
            return self.heads[int(x.sum(-1).argmax()) % 3](x)

    model = Number(lambda: nn.Linear(8, 3), lambda made: nn.Sequential(*made)).eval()
    program = hx.export(model, torch.randn(7, 8), dynamic={"x": {0: "n"}})
    for _ in range(8):
        equal(program, model, torch.randn(9, 8))


def test_in_a_list_of_weights():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.each = nn.ParameterList(nn.Parameter(torch.randn(8, 3)) for _ in range(4))

        def forward(self, x, k):
            return x @ self.each[k] + self.each[2].sum()

    model = Weights()
    program = hx.export(model, (torch.randn(5, 8), torch.tensor(2)))
    for k in range(4):
        equal(program, model, torch.randn(5, 8), torch.tensor(k))


def test_each_row_has_its_own():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(4))

        def forward(self, x, which):
            return torch.stack([self.heads[k](row) for row, k in zip(x, which)])

    model = Own()
    axes = {"x": {0: "n"}, "which": {0: "n"}}
    program = hx.export(model, (torch.randn(5, 8), torch.tensor([2, 0, 1, 3, 2])), dynamic=axes)
    equal(program, model, torch.randn(9, 8), torch.arange(9) % 4)


def test_a_layer_that_is_also_called_by_its_place_stays_what_it_is():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
            self.heads[2].weight = self.heads[1].weight

        def forward(self, x, k):
            return self.heads[1](self.heads[k](x)) + self.heads[0](x) @ self.heads[1].weight

    model = Both()
    program = hx.export(model, (torch.randn(5, 8), torch.tensor(1)))
    for k in range(3):
        equal(program, model, torch.randn(5, 8), torch.tensor(k))


def test_layers_that_differ_in_more_than_their_numbers_are_told_of():
    class Scaled(nn.Linear):
        def __init__(self, by):
            super().__init__(8, 3)
            self.by = by

        def forward(self, x):
            return super().forward(x) * self.by

    scales = iter((1.0, 2.0, 3.0))
    model = Heads(lambda: Scaled(next(scales)))
    with pytest.raises(VerificationError) as caught:
        hx.export(model, (torch.randn(5, 8), torch.tensor(1)))
    assert "index of one value" in str(caught.value) and "test_picked.py" in str(caught.value)


def test_what_was_begun_for_layers_that_differ_is_taken_back():
    """The size that picks is read once more behind that."""

    class Differing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8, bias=False)])

        def forward(self, x):
            n = min(x.shape[0] // 5, 1)
            return self.layers[n](x) * (n + 1)

    model = Differing()
    program = hx.export(model, torch.randn(12, 8), dynamic={"x": {0: "n"}})
    assert program.report.promised == {"n": "n>=5"}
    assert program.report.escapes[0].detail.endswith("of a ModuleList")
    for n in (5, 9, 40):
        equal(program, model, torch.randn(n, 8))


def test_the_model_refuses_what_it_has_not():
    with pytest.raises(IndexError, match="out of range"):
        hx.export(Heads(lambda: nn.Linear(8, 3)), (torch.randn(5, 8), torch.tensor(3)))


def test_nothing_is_written_for_layers_that_nobody_picks(tmp_path):
    model = Mixture(rows).eval()
    hx.export(model, torch.randn(24, 8), tmp_path / "m.onnx", dynamic={"x": {0: "n"}})
    written = onnx.load(tmp_path / "m.onnx").graph.initializer
    held = sum(len(each.raw_data) for each in written if "." in each.name)
    assert held == sum(p.numel() * 4 for p in model.parameters())


def test_weights_that_are_elsewhere_are_streamed(tmp_path):
    model = Heads(lambda: nn.Linear(8, 3)).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    with torch.device("meta"):
        empty = Heads(lambda: nn.Linear(8, 3)).eval()
    args = torch.randn(5, 8), torch.tensor(1)
    program = hx.export(empty, args, tmp_path / "m.onnx", weights=tmp_path / "weights.safetensors")
    for k in range(3):
        equal(program, model, torch.randn(5, 8), torch.tensor(k))


WIDTHS, SCALES = [1, 3, 2, 5], [0.5, -1.25, 2.0] * 40


def a_number(x):
    return x * SCALES[x.shape[1]]


def from_the_end(x):
    return x + SCALES[-x.shape[1]]


def a_size(x):
    return x[:, : WIDTHS[x.shape[1] // 8 % 4]]


def how_often(x):
    return x.mean(1).repeat(WIDTHS[x.shape[1] % 4])


def of_a_tuple(x):
    return x * (1.5, 2.5, 3.5)[x.shape[1] % 3]


@pytest.mark.parametrize("model", [a_number, from_the_end, a_size, how_often, of_a_tuple])
def test_a_size_picks_of_plain_numbers(model):
    program = hx.export(model, torch.randn(2, 7), dynamic={"x": {1: "n"}})
    assert not program.report.promised
    for n in (1, 2, 8, 31, 100, 119):
        x = torch.randn(2, n)
        assert_close(program.run(x), model(x))


def test_where_the_numbers_end_the_file_ends_as_the_model_does():
    program = hx.export(a_number, torch.randn(2, 7), dynamic={"x": {1: "n"}})
    with pytest.raises(IndexError):
        a_number(torch.randn(2, 120))
    with pytest.raises(hx.UsageError, match="indices element out of data bounds"):
        program.run(torch.randn(2, 120))
