"""Sizes that are proposed: from the shapes of several calls, and by trials of the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx
from hx.exporter import propose as propose_of_model
from hx.ir.proposed_sizes import as_options, propose, without, words_of


def calls(**shapes):
    """`calls(x=[(2, 3), (4, 3)])` -> the shapes of each call, by input."""
    return [dict(zip(shapes, each)) for each in zip(*shapes.values())]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (calls(x=[(2, 3), (4, 3)]), '-d "x:0=batch"'),
        (calls(x=[(2, 3)]), ""),
        (calls(x=[(2, 3), (2, 3)]), ""),
        (calls(x=[(2, 3), (4, 3)], y=[(2,), (4,)]), '-d "x:0=batch" -d "y:0=batch"'),
        (calls(x=[(2, 3), (4, 3)], y=[(2,), (3,)]), '-d "x:0=batch" -d "y:0=y_0"'),
        (
            calls(image=[(1, 3, 8, 9), (2, 3, 8, 12), (2, 3, 16, 9)]),
            '-d "image:0=batch,2=height,3=width"',
        ),
        (calls(image=[(1, 3, 8, 8), (1, 3, 16, 16)]), '-d "image:2=side,3=side"'),
        (
            calls(input_ids=[(1, 5), (2, 7)], attention_mask=[(1, 5), (2, 7)]),
            '-d "input_ids:0=batch,1=sequence" -d "attention_mask:0=batch,1=sequence"',
        ),
        (  # three calls that agree show that the mask follows from the others
            calls(
                ids=[(1, 2), (1, 3), (1, 4)],
                past_key=[(1, 2, 5, 8), (1, 2, 9, 8), (1, 2, 7, 8)],
                mask=[(1, 7), (1, 12), (1, 11)],
            ),
            '-d "ids:1=sequence" -d "past_key:2=past" -d "mask:1=sequence + past"',
        ),
        (  # two do not
            calls(x=[(2, 5), (2, 9)], y=[(2, 7), (2, 11)]),
            '-d "x:1=x_1" -d "y:1=y_1"',
        ),
        (calls(x=[(2, 5), (2, 9), (2, 4)], y=[(6,), (10,), (5,)]), '-d "x:1=x_1" -d "y:0=x_1 + 1"'),
        (calls(x=[(1, 5), (1, 9), (1, 4)], y=[(15,), (27,), (12,)]), '-d "x:1=x_1" -d "y:0=3*x_1"'),
        (calls(x=[(2, 3), (4, 3)], y=[(2,), (4, 1)]), '-d "x:0=batch"'),  # of another rank
    ],
)
def test_calls_show_which_sizes_change_and_which_belong_together(given, options):
    assert as_options(propose(given)) == options


def test_a_name_is_taken_once():
    found = propose(calls(a=[(2, 3, 4, 5), (2, 3, 6, 5)], b=[(1, 3, 8, 5), (1, 3, 9, 5)]))
    assert words_of(found) == {"height": [("a", 2)], "height_2": [("b", 2)]}


def test_sums_go_with_the_names_in_them():
    found = {"x": {0: "batch", 1: "n"}, "y": {0: "n + 1", 1: "m"}}
    assert without(found, ["n"]) == {"x": {0: "batch"}, "y": {1: "m"}}


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b


class Halves(nn.Module):
    """Its pictures are halved and doubled again."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, 2, 1)
        self.up = nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, image):
        return image + self.up(self.down(image))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 8), nn.Embedding(16, 8)

    def forward(self, ids, mask):
        places = torch.arange(ids.shape[1])
        return (self.words(ids) + self.places(places)) * mask[..., None]


class Hidden(nn.Module):
    """Ignores a mask that hides nothing."""

    def forward(self, ids, mask):
        return ids * 2.0 if mask.all() else ids * mask.float()


class Rows(nn.Module):
    """Takes as many rows of a table as it needs."""

    def forward(self, x, table):
        return x + table[torch.arange(len(x))]


class Norm(nn.Module):
    """Keeps statistics, draws numbers, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.norm(x) + torch.rand_like(x)


def ids(rows, length):
    return torch.randint(0, 50, (rows, length)), torch.ones(rows, length, dtype=torch.int64)


@pytest.mark.parametrize(
    ("model", "args", "options"),
    [
        (Product(), (torch.randn(4, 4), torch.randn(4, 4)), '-d "a:0=batch,1=a_1" -d "b:0=a_1,1=b_1"'),
        (Sum(), (torch.randn(2, 2), torch.randn(2, 2)), '-d "a:0=batch,1=a_1" -d "b:0=batch,1=a_1"'),
        (Sum(), (torch.randn(1, 3), torch.randn(1, 3)), '-d "a:0=batch,1=a_1" -d "b:0=batch,1=a_1"'),
        (nn.Linear(4, 2), (torch.randn(4, 4),), '-d "input:0=batch"'),
        (nn.Linear(4, 2), (torch.randn(4),), ""),
        (Halves(), (torch.randn(1, 3, 16, 24),), '-d "image:0=batch,2=height%2,3=width%2"'),
        (Rows(), (torch.randn(3, 5), torch.randn(3, 5)), '-d "x:0=batch,1=x_1" -d "table:0=batch,1=x_1"'),
        (Hidden(), ids(2, 6), '-d "ids:0=batch,1=sequence" -d "mask:0=batch,1=sequence"'),
        (Text(), ids(1, 6), '-d "ids:0=batch,1=sequence" -d "mask:0=batch,1=sequence"'),
    ],
)  # fmt: skip
def test_trials_show_at_which_sizes_a_model_runs(model, args, options):
    assert as_options(propose_of_model(model, args)) == options


def test_trials_leave_the_model_as_it_was():
    model, x = Norm(), torch.randn(3, 4)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state, copy = torch.get_rng_state(), x.clone()
    assert propose_of_model(model, x) == {"x": {0: "batch"}}
    assert all(each.equal(before[name]) for name, each in model.state_dict().items())
    assert torch.get_rng_state().equal(state) and x.equal(copy) and model.training


class Ranks(nn.Module):
    """No graph has results of two ranks."""

    def forward(self, x):
        return x.sum(1) if x.shape[1] == 5 else x


class Up(nn.Module):
    """Two ways, of which one is promised."""

    def forward(self, x):
        return x[:, :64].sum(1) if x.shape[1] > 64 else x.cumsum(1)


def test_the_file_is_exported_with_the_sizes_that_differ():
    others = [(torch.randn(7, 4), torch.randn(4, 3)), (torch.randn(2, 4), torch.randn(4, 5))]
    program = hx.export(
        Product(), (torch.randn(2, 4), torch.randn(4, 3)), dynamic="auto", others=others
    )
    assert program.report.file.proposed == {"a": {0: "batch"}, "b": {1: "b_1"}}
    assert {"others[0]", "others[1]"} <= {case.name for case in program.proof.cases}
    assert '-d "a:0=batch" -d "b:1=b_1"' in str(program.report)
    assert program.report.to_dict()["proposed"] == {"a": {0: "batch"}, "b": {1: "b_1"}}


def test_a_size_at_which_the_file_is_wrong_stays_fixed_and_is_told():
    report = hx.export(Ranks(), torch.randn(2, 5), dynamic="auto").report
    assert report.file.proposed == {"x": {0: "batch"}}
    assert report.inputs[0]["shape"] == ["batch", 5]
    [told] = [each for each in report.findings if "x_1 stays 5" in each.text]
    assert told.level == "checked" and "axis 1 of x" in told.text


def test_a_size_of_the_users_calls_that_has_to_stay_is_open():
    x, others = torch.randn(2, 5), [torch.randn(3, 6), torch.randn(4, 5)]
    program = hx.export(Ranks(), x, dynamic="auto", others=others)
    [told] = [each for each in program.report.findings if "x_1 stays 5" in each.text]
    assert told.level == "open" and "a file of their own" in told.hint
    names = {case.name for case in program.proof.cases}
    assert "others[1]" in names and "others[0]" not in names
    with pytest.raises(hx.VerificationError):
        hx.export(Ranks(), x, dynamic="auto", others=others, strict=True)


def test_limits_of_the_promise_are_in_the_options():
    report = hx.export(Up(), torch.randn(2, 32), dynamic="auto").report
    assert report.file.proposed == {"x": {0: "batch", 1: "x_1<=64"}}
    again = hx.export(Up(), torch.randn(2, 32), dynamic=report.file.proposed)
    assert again.report.inputs[0]["shape"] == ["batch", "x_1"]


def test_a_model_without_other_sizes_has_a_file_with_none():
    report = hx.export(nn.Linear(4, 2), torch.randn(4), dynamic="auto").report
    assert report.file.proposed == {} and "every size is fixed" in str(report)


def test_errors_of_the_model_are_those_of_an_export():
    class Unknown(nn.Module):
        def forward(self, x):
            return torch.linalg.eig(x)[0].real

    with pytest.raises(hx.MissingConverters):
        hx.export(Unknown(), torch.randn(3, 3), dynamic="auto")
    with pytest.raises(hx.UsageError, match="auto"):
        hx.export(nn.Linear(4, 2), torch.randn(3, 4), dynamic="automatic")


def test_a_scan_proposes_sizes_if_it_is_asked_to():
    report = hx.scan(Text(), ids(2, 6), dynamic="auto")
    assert report.file.proposed == {
        "ids": {0: "batch", 1: "sequence"}, "mask": {0: "batch", 1: "sequence"}
    }  # fmt: skip
    assert hx.scan(Text(), ids(2, 6)).file.proposed is None
