"""Sizes that the contents of tensors say: a number, how many are picked, counts in a list."""

from __future__ import annotations

import functools

import onnx_ir as ir
import pytest
import torch
from torch import nn

import hx
from hx.runtime import Session


def test_a_number_read_from_a_tensor_is_a_size(proved):
    def f(x, count):
        n = count.item()
        return torch.zeros(n), torch.arange(n) * 2, x[:n], x.narrow(0, 0, n), x[: n + 1] * n

    program = proved(f, (torch.randn(9), torch.tensor(4)))
    (escape,) = {e.where.line for e in program.report.escapes}
    assert escape and all(e.kind == "item" for e in program.report.escapes)
    graph = program.model
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
    run = Session(ir.to_proto(program.model).SerializeToString()).run
    assert run({"x": -rows.abs()})[0].shape == (0, 2, 2)


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


def by_expert(x, counts):
    """Each group of rows times the matrix of its expert, as mixtures of experts do it."""
    weights = torch.linspace(-1, 1, 48).reshape(3, 4, 4)
    choice = (x @ weights[0, :, :3]).argmax(-1)
    order, out, start = choice.argsort(stable=True), torch.zeros_like(x), 0
    for expert, n in enumerate(counts(torch.bincount(choice, minlength=3))):
        out[order[start : start + n]] = x[order[start : start + n]] @ weights[expert]
        start += n
    return out


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
@pytest.mark.parametrize("counts", [lambda c: c.tolist(), lambda c: [v.item() for v in c]])
def test_a_list_of_counts_whose_length_the_data_has(counts, dynamic):
    torch.manual_seed(0)
    model = functools.partial(by_expert, counts=counts)
    program = hx.export(lambda x: model(x), torch.randn(9, 4), dynamic=dynamic)
    assert program.proof.ok
    x = torch.randn(9, 4)
    torch.testing.assert_close(program.run(x), model(x))


def test_a_plain_number_of_contents_where_no_size_varies():
    def model(x, lengths):
        n = int(lengths.max())
        return x[:, :n].sum(1)

    lengths = torch.tensor([4, 6, 2])
    program = hx.export(model, (torch.randn(3, 9), lengths))
    x, other = torch.randn(3, 9), torch.tensor([8, 1, 3])
    torch.testing.assert_close(program.run(x, other), model(x, other))


class Picked(nn.Module):
    def forward(self, x):
        y = x[x > 0]
        n = y.shape[0]
        return y * (2.0 * n), x / (0.5 * n + 1), torch.tensor([n * 0.1, 1.5 * n])


class Stretched(nn.Module):
    """Rows, each as often as it says: what a speech model does between its two halves."""

    def forward(self, x):
        times = x.abs().sum(-1).long()
        rows = [torch.repeat_interleave(each, n, dim=0) for each, n in zip(x, times)]
        return nn.utils.rnn.pad_sequence(rows), torch.LongTensor([row.shape[0] for row in rows])


@pytest.mark.parametrize("model", [Picked(), Stretched()], ids=["Picked", "Stretched"])
def test_sizes_that_contents_say_where_no_axis_varies(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 5, 4))
    for _ in range(5):
        x = torch.randn(2, 5, 4)
        for got, want in zip(program.run(x), model(x), strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_what_a_mask_of_ones_answers_is_no_question(dtype):
    class Masked(torch.nn.Module):
        def forward(self, x):
            mask = torch.ones_like(x[..., 0], dtype=dtype)
            if mask.transpose(0, 1)[0].all():
                x = x * 2
            if (mask == 0).any() or 0 in mask:
                x = x - 1
            if not mask.bool().all():
                x = x + 5
            return x

    program = hx.export(
        Masked(), torch.randn(2, 3, 4), dynamic={"x": {0: "b", 1: "t"}}, strict=True
    )
    assert program.report.findings == []


def test_a_size_that_a_mask_of_ones_counts_is_fixed_at_sizes_that_are_told():
    class Counted(torch.nn.Module):
        def forward(self, x):
            ends = torch.ones_like(x[..., 0], dtype=torch.int64).sum(1) - 1
            return x * 2 if ends[0] > 9 else x[:, : ends[0]]

    program = hx.export(Counted(), torch.randn(2, 3, 4), dynamic={"x": {0: "b", 1: "t"}})
    assert not [f for f in program.report.findings if f.level == "open"]
    x = torch.randn(3, 5, 4)
    torch.testing.assert_close(program.run(x), x[:, :4])
