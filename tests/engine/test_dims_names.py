"""What `dynamic=` may say: the names of sizes, each of its forms, limits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx
from hx.errors import UsageError


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
