"""What comes in and what goes out: one value for each, under its own name."""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import weakref
from typing import Any, NamedTuple

import pytest
import torch
from called import Whole
from torch import nn
from torch.utils import _pytree as pytree
from written import initializers, inputs, ops, outputs

import hx

BATCH = {"x": {0: "b"}}
FIVE = [{"b": 5}]


# Inputs.


def test_the_same_tensor_twice(proved):
    def f(x, y):
        return x + y, x * 2

    t = torch.randn(2, 3)
    program = proved(
        f, (t, t), dynamic={"x": {0: "b"}, "y": {0: "b"}}, sizes=FIVE,
    )  # fmt: skip
    assert inputs(program) == ["x", "y"]


def test_the_same_tensor_twice_in_a_list(proved):
    t = torch.randn(2, 3)
    program = proved(lambda xs: xs[0] - xs[1], ([t, t],))
    assert inputs(program) == ["xs_0", "xs_1"]


def test_an_input_returned_unchanged(proved):
    program = proved(lambda x: x, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)
    assert inputs(program) == ["x"] and outputs(program) == ["output"]
    assert ops(program) == ["Identity"]


def test_an_input_returned_twice_and_through_a_view(proved):
    def f(x):
        return x, x, x.view(-1), x[0], x.detach()

    proved(f, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)


def test_an_unused_input_stays_an_input(proved):
    program = proved(
        lambda x, unused, y: x + y, (torch.randn(2, 3), torch.randn(7), torch.randn(3)),
        dynamic=BATCH, sizes=FIVE,
    )  # fmt: skip
    assert inputs(program) == ["x", "unused", "y"]


def test_an_input_that_is_written_to_is_not_the_callers(proved):
    def f(x):
        x += 1
        return x

    x = torch.zeros(3)
    proved(f, x)
    assert x.tolist() == [0, 0, 0]


def test_inputs_that_share_memory_must_not_be_written_to(proved):
    def f(x, y):
        x += 1
        return x * y

    t = torch.randn(4)
    for shared in (t, t[:4]):
        with pytest.raises(hx.Unsupported, match=r"x and y share memory.*\n.*\n.*y\.clone\(\)"):
            hx.export(f, (t, shared))
    proved(f, (t, t.clone()))
    assert not proved(lambda x, y: x * y, (t, t)).report.notes


def test_no_tensor_at_all_is_a_constant_model(proved):
    model = Whole(lambda: torch.arange(6).view(2, 3) * 2)
    program = proved(model)
    assert inputs(program) == [] and ops(program) in ([], ["Identity"])


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.bool],
)  # fmt: skip
def test_inputs_of_every_dtype(proved, dtype):
    x = torch.randint(0, 2, (2, 3)).to(dtype)
    program = proved(lambda x: (x, x.reshape(-1), x[:, 1]), x, dynamic=BATCH, sizes=FIVE)
    assert program.report.inputs[0]["dtype"] == {
        torch.float64: "double", torch.float32: "float"}.get(dtype, str(dtype)[6:])  # fmt: skip


def test_numbers_and_strings_among_the_arguments_are_fixed(proved):
    def f(x, scale, mode="a", flags=(True, 2)):
        return x * scale * flags[1] if mode == "b" and flags[0] else x

    program = proved(f, (torch.randn(2, 3), 2.5), kwargs={"mode": "b"}, dynamic=BATCH, sizes=FIVE)
    assert inputs(program) == ["x"]


# Nested arguments and keyword arguments.


def test_nested_containers_and_their_flat_names(proved):
    def f(pair, table, *rest, bias=None, **more):
        a, (b, c) = pair
        return a + b * c + table["k"] - table["deep"]["v"][0] + rest[0] * rest[1] + bias + more["z"]

    t = [torch.randn(2, 3) for _ in range(9)]
    program = proved(
        f, ((t[0], [t[1], t[2]]), {"k": t[3], "deep": {"v": (t[4], 3)}}, t[5], t[6]),
        kwargs={"bias": t[7], "z": t[8]},
    )  # fmt: skip
    assert inputs(program) == [
        "pair_0", "pair_1_0", "pair_1_1", "table_k", "table_deep_v_0", "rest_0", "rest_1", "bias",
        "z",
    ]  # fmt: skip


def test_keyword_arguments_by_dynamic_name(proved):
    class Model(nn.Module):
        def forward(self, x, *, mask=None):
            return x if mask is None else x * mask

    program = proved(
        Model(), (torch.randn(2, 3),), kwargs={"mask": torch.ones(2, 3)},
        dynamic={"x": {0: "b"}, "mask": {0: "b"}}, sizes=FIVE,
    )  # fmt: skip
    assert inputs(program) == ["x", "mask"]


def test_only_keyword_arguments(proved):
    program = proved(
        Whole(lambda x, y: x - y), (), kwargs={"y": torch.ones(2), "x": torch.zeros(2)}
    )
    assert sorted(inputs(program)) == ["x", "y"]


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass
class Boxes:
    corners: torch.Tensor
    scores: torch.Tensor | None = None
    label: str = "box"
    inner: Any = None


class Held:
    """A container that only PyTorch's pytree knows."""

    def __init__(self, left, right):
        self.left, self.right = left, right


pytree.register_pytree_node(
    Held,
    lambda h: ([h.left, h.right], None),
    lambda values, context: Held(*values),
    serialized_type_name="tests.Held",
)


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda a, b: Point(a, b), ["v_x", "v_y"]),
        (lambda a, b: Boxes(a, b, inner=[a]), ["v_corners", "v_scores", "v_inner_0"]),
        (lambda a, b: Held(a, b), ["v_0", "v_1"]),
        (lambda a, b: collections.OrderedDict(left=a, right=b), ["v_left", "v_right"]),
        (lambda a, b: collections.defaultdict(list, p=[a], q=b), ["v_p_0", "v_q"]),
    ],
)
def test_arguments_and_results_in_containers(proved, make, names):
    """The same container goes in and comes out; verification runs it with other tensors."""

    def f(v):
        found = pytree.tree_leaves(v) if not isinstance(v, Boxes) else [v.corners, v.scores]
        return make(found[0] + 1, found[1] * 2)

    program = proved(f, (make(torch.randn(2, 3), torch.randn(2, 3)),))
    assert inputs(program) == names
    assert outputs(program) == [n.removeprefix("v_") if n not in ("v_0", "v_1") else n[2:]
                                for n in names]  # fmt: skip


# Outputs.


def test_outputs_of_every_kind(proved):
    def f(x):
        constant = torch.arange(3.0)
        return {
            "same": x, "constant": constant, "view": constant[1:], "nothing": None, "number": 3,
            "float": 2.5, "flag": True, "size": x.shape[0], "sum": [x.sum(), (x.mean(), None)],
            "half": x.shape[1] / 2,
        }  # fmt: skip

    program = proved(f, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)
    assert outputs(program) == [
        "same", "constant", "view", "number", "float", "flag", "size", "sum_0", "sum_1_0", "half",
    ]  # fmt: skip
    told = {o["name"]: (o["dtype"], o["shape"]) for o in program.report.outputs}
    assert told["number"] == ("int64", []) and told["float"] == ("float", [])
    assert told["flag"] == ("bool", []) and told["size"] == ("int64", [])
    assert told["same"] == ("float", ["b", 3])


def test_a_shape_is_an_output_of_sizes(proved):
    program = proved(lambda x: (x.shape, x * 1), torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)
    assert outputs(program) == ["output_0_0", "output_0_1", "output_1"]


def test_outputs_that_are_views_of_one_another(proved):
    def f(x):
        y = x * 2
        return y, y[0], y.t(), y.view(-1), [y, y]

    proved(f, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)


def test_one_output_alone_in_a_tuple_or_a_dict(proved):
    assert outputs(proved(lambda x: (x * 2,), torch.randn(3))) == ["output"]
    assert outputs(proved(lambda x: {"logits": x * 2}, torch.randn(3))) == ["logits"]
    assert outputs(proved(lambda x: [[x * 2, x]], torch.randn(3))) == ["output_0", "output_1"]


def test_a_weight_as_an_output(proved):
    model = nn.Linear(2, 2)
    model.forward = lambda x: (model.weight, x @ model.weight)
    program = proved(model, torch.randn(3, 2), dynamic=BATCH, sizes=FIVE)
    assert list(initializers(program)) == ["weight"]


def test_an_output_that_is_no_tensor_is_left_out_and_told(proved):
    program = proved(lambda x: {"y": x * 2, "name": "net"}, torch.randn(3))
    assert outputs(program) == ["y"]
    assert any("'str'" in n or "str" in n for n in program.report.notes)


def test_no_output_at_all_is_an_error():
    with pytest.raises(hx.UsageError, match="no tensor"):
        hx.export(lambda x: None, torch.randn(3))


def test_names_that_collide_are_told_apart(proved):
    def f(x, x_0):
        return {"x": x[0] + x_0, "a": {"b": x[0]}, "a_b": x_0}

    program = proved(f, ([torch.randn(2)], torch.randn(2)))
    assert len(set(inputs(program))) == 2 and inputs(program)[0] == "x_0"
    assert len(set(outputs(program))) == 3
    assert not set(inputs(program)) & set(outputs(program))


def test_names_by_order(proved):
    program = proved(
        lambda x, y: (x + y, x), (torch.randn(2), torch.randn(2)), input_names=["left", "right"],
        output_names=["sum", "same"], dynamic={"left": {0: "n"}, "right": {0: "n"}},
        sizes=[{"n": 7}],
    )  # fmt: skip
    assert inputs(program) == ["left", "right"] and outputs(program) == ["sum", "same"]
    with pytest.raises(hx.UsageError, match="3 names.*2"):
        hx.export(lambda x, y: x + y, (torch.ones(1), torch.ones(1)), input_names=["a", "b", "c"])
    with pytest.raises(hx.UsageError, match="repeats"):
        hx.export(lambda x, y: x + y, (torch.ones(1), torch.ones(1)), input_names=["a", "a"])
    with pytest.raises(hx.UsageError, match="output_names"):
        hx.export(lambda x: (x, x * 2), torch.ones(1), output_names=["a", "b", "c"])


def test_names_may_be_fewer_than_what_there_is_to_name():
    """As to torch.onnx.export: a state behind the input, outputs that nobody looks at."""
    model = torch.nn.LSTM(3, 4)
    state = torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    program = hx.export(
        model, (torch.randn(5, 2, 3), state), input_names=["x"], output_names=["y"],
        dynamic={"x": {0: "t"}},
    )  # fmt: skip
    assert inputs(program) == ["x", "hx_0", "hx_1"] and outputs(program)[0] == "y"
    assert len(set(outputs(program))) == 3


def test_sums_of_sizes_are_written_in_one_order():
    """Wherever their terms happen to lie in memory."""

    def model(x, y):
        n, m = x.shape[0], y.shape[0]
        return torch.ones(min(n, m) + max(n, 2 * m) + n // 3 + n * m + m % 4) * x.sum()

    found, kept = set(), []
    for each in range(20):
        kept.append([object() for _ in range(37 * each)])  # what is made next lies elsewhere
        program = hx.export(
            model, (torch.ones(5), torch.ones(7)), dynamic=[{0: "n"}, {0: "m"}], verify=False
        )
        found.add(
            "; ".join(f"{n.op_type} {[v.name for v in n.inputs]}" for n in program.model.graph)
        )
    assert len(found) == 1


def test_a_program_goes_with_the_last_name_of_it(proved):
    """And the weights of the model with it: nothing waits for a collector of garbage."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = torch.where(x > 0, self.layer(x), x @ self.weight)
            return torch.stft(x.reshape(-1), 4, return_complex=True), x[: x.shape[0] // 2]

    gc.collect()
    gc.disable()
    try:
        model = Model()
        program = hx.export(model, torch.randn(3, 4), dynamic={"x": {0: "n"}})
        program.run(torch.randn(5, 4))
        report = program.report
        left = weakref.ref(model.weight), weakref.ref(program)
        del program
        assert [each() is None for each in left] == [False, True]
        assert report.made.model.graph.num_nodes() == report.nodes
        del report, model
        assert left[0]() is None
    finally:
        gc.enable()


def test_a_named_tuple_is_one_argument(proved):
    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor

    pair = Pair(torch.randn(2, 3), torch.randn(2, 3))
    program = hx.export(lambda pair: pair.first - pair.second, pair)
    assert [v["name"] for v in program.report.inputs] == ["pair_first", "pair_second"]
    assert torch.equal(program.run(pair), pair.first - pair.second)


def test_an_output_of_a_module_that_runs_twice_is_its_last():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(self.layer(x)))

    model, x = Twice(), torch.randn(2, 3)
    program = hx.export(model, x, outputs=["layer"])
    torch.testing.assert_close(program.run(x), {"layer": model(x)})
    assert [n for n in program.report.notes if "more than once" in n] == program.report.notes


@pytest.mark.parametrize(
    "model",
    [
        lambda x: copy.deepcopy(x).mul_(2) + x,
        lambda x: copy.deepcopy([x, {"a": x}])[1]["a"] * x.shape[0],
        lambda x: copy.copy(x) * 2,
        lambda x: (copy.copy(x).mul_(2), x + 1),
        lambda x: copy.copy(x[:, 1:]).add_(1) + x[:, 1:],
    ],
    ids=["deep", "nested", "shallow", "written", "view"],
)
def test_copies_by_pythons_copy(proved, model):
    program = proved(model, torch.randn(2, 3), dynamic={"x": {0: "n"}}, sizes=[{"n": 1}, {"n": 5}])
    assert not program.report.escapes


def test_where_an_export_is_asked_for_is_no_part_of_the_model(tmp_path):
    """A model of torch's own modules has no line of the user's."""
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(2, 3)
    hx.export(model, x, tmp_path / "a.onnx")
    hx.export(model, x, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    with pytest.raises(hx.Unsupported) as caught:
        hx.export(nn.Sequential(nn.RMSNorm(3), Refused()), x)
    assert caught.value.where.file == __file__


class Refused(nn.Module):
    def forward(self, x):
        return x.to_sparse_csr()
