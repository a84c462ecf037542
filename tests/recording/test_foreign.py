"""Another library's objects and operators: containers, memory that they share, sizes from data."""

from __future__ import annotations

import sys
import textwrap
import types

import numpy as np
import pytest
import torch
from torch import nn

import hx
from hx import Container, ReferenceKernel, Registry, case, converter
from hx.packs.installed import Pack
from hx.registration import registrations
from hx.testing import runs_of

LIBRARY = """
    import torch

    class Points:
        def __init__(self, values, places, seen=()):
            self.values, self.places, self.seen = values, places, seen

    def scaled(points, by):
        '''Other values at the same places: the very same memory, under another object.'''
        return Points(points.values * by, points.places[:], (*points.seen, points.places))

    def back(points):
        '''The places that the first of all had.'''
        return Points(points.values, points.seen[0], ())

    def positive(x):
        '''The numbers above zero, and where they were.'''
        flat = x.reshape(-1)
        at = (flat > 0).nonzero()[:, 0]
        return flat[at], at

    def guarded(x):
        if x.shape[0] != 0:
            x = torch.relu(x)
        return x
"""


@pytest.fixture(autouse=True)
def grove():
    module = types.ModuleType("grove")
    sys.modules["grove"] = module
    exec(compile(textwrap.dedent(LIBRARY), "grove.py", "exec"), module.__dict__)
    yield module
    del sys.modules["grove"]


def remake(parts, points):
    return type(points)(parts["values"], parts["places"], points.seen)


POINTS = Container("grove.Points", lambda p: ({"values": p.values, "places": p.places}, p), remake)


@converter("grove.scaled")
def scaled(op, points, by):
    return remake({"values": op.Mul(points.values, by), "places": points.places}, points)


@converter("grove.back")
def back(op, points):
    return remake({"values": points.values, "places": op.value(points.seen[0])}, points)


@converter("grove.positive")
def positive(op, x):
    kinds = [(x.dtype, ("found",)), (torch.int64, ("found",))]
    return op("grove", "Max", x, version=3, results=kinds)


@converter("grove.guarded")
def guarded(op, x):
    return op.instead(torch.relu)


def _positive(x):
    flat = x.reshape(-1)
    (at,) = np.nonzero(flat > 0)
    return flat[at], at


def packs(*converters):
    own = tuple(r for one in converters for r in registrations(one))
    kernels = (ReferenceKernel("grove", "Max", _positive),)
    pack = Pack("grove", "main", "1", "", registrations=own, kernels=kernels,
                containers=(POINTS,))  # fmt: skip
    return Registry([*Registry.installed(only=["standard"]).packs, pack])


class Model(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, *x):
        return self.body(*x)


def test_writing_to_memory_that_a_result_shares_with_an_argument_is_seen_by_both(grove):
    def body(values, places):
        first = grove.Points(values, places)
        second = grove.scaled(grove.scaled(first, 2.0), 3.0)
        second.places[:, 1:] *= 10
        return first.places, second.values, second.places

    program = hx.export(
        Model(body),
        (torch.randn(5, 2), torch.arange(10).reshape(5, 2)),
        dynamic={"x_0": {0: "n"}, "x_1": {0: "n"}},
        packs=packs(scaled),
    )
    assert program.proof.ok and program.report.converters["grove.scaled"] == 2


def test_a_result_that_the_model_had_before_is_what_it_is_now(grove):
    def body(values, places):
        first = grove.Points(values, places + 1)
        second = grove.scaled(first, 2.0)
        first.places += 5
        third = grove.back(second)
        first.places += 7
        return third.values, third.places, second.places

    program = hx.export(
        Model(body), (torch.randn(5, 2), torch.arange(10).reshape(5, 2)), packs=packs(scaled, back)
    )
    assert program.proof.ok and program.report.converters["grove.back"] == 1


def test_sizes_that_depend_on_what_is_in_the_inputs_are_said_with_a_word(grove):
    def body(x):
        found, at = grove.positive(x)
        assert found.shape[0] == at.shape[0]  # the same word is the same size: no branch
        return found * at

    program = hx.export(Model(body), torch.randn(4, 6), packs=packs(positive), strict=True)
    (node,) = (n for n in program.model.graph if n.domain == "grove")
    assert program.model.opset_imports["grove"] == 3
    assert [len(out.shape) for out in node.outputs] == [1, 1]
    assert not any(isinstance(out.shape[0], int) for out in node.outputs)
    # The inputs that it was proved on had other numbers of positive elements.
    assert len({tuple(case.outputs[0].shape) for case in program.proof.cases}) > 1


def test_a_converter_may_have_other_code_run_in_place_of_the_body(grove):
    class Guarded(nn.Module):
        def forward(self, x):
            return grove.guarded(x) + 1

    args = {"dynamic": {"x": {0: "n"}}, "packs": packs(guarded)}
    program = hx.export(Guarded(), torch.randn(3, 4), strict=True, **args)
    assert [node.op_type for node in program.model.graph] == ["Relu", "Add"]
    assert program.report.converters["grove.guarded"] == 1
    args["packs"] = packs()
    with pytest.raises(hx.EscapeError):
        hx.export(Guarded(), torch.randn(3, 4), strict=True, verify=False, **args)


def test_other_code_for_a_function_of_torch():
    @converter("torch.nn.functional.softsign")
    def softsign(op, input):
        return op.instead(lambda input: input / (torch.relu(input) + torch.relu(-input) + 1))

    registry = Registry.installed(only=["standard"])
    registry.add(softsign)
    program = hx.export(Model(torch.nn.functional.softsign), torch.randn(3, 4), packs=registry)
    assert [node.op_type for node in program.model.graph].count("Relu") == 2


def test_other_code_that_does_not_take_the_call_is_told_at_the_converters_line(line_of):
    def softsign(op, input):
        return op.instead(lambda: torch.ones(3))  # here

    registry = Registry.installed(only=["standard"])
    registry.add(converter("torch.nn.functional.softsign")(softsign))
    with pytest.raises(hx.ConverterError, match="does not take what the call has") as caught:
        hx.export(Model(torch.nn.functional.softsign), torch.randn(3, 4), packs=registry)
    assert f"(local) at {__file__}:{line_of(softsign, '# here')}" in str(caught.value)


def test_the_tensors_of_an_object_in_a_case_are_inputs(grove):
    def points():
        return grove.Points(torch.randn(5, 2), torch.arange(10).reshape(5, 2))

    tested = converter("grove.scaled", cases=[case(lambda: points(), lambda: 2.0)])(
        lambda op, points, by: scaled(op, points, by)
    )
    (run,) = runs_of(registrations(tested), opsets=[20], containers=[POINTS])
    assert [v.name for v in run.check().model.graph.inputs] == ["x_0", "x_1"]


def test_a_graph_without_custom_operators_runs_in_onnxruntime_whatever_kernels_there_are(grove):
    program = hx.export(Model(torch.relu), torch.randn(3, 4), packs=packs(positive))
    assert program.proof.runtime.startswith("onnxruntime")
    program = hx.export(Model(grove.positive), torch.randn(3, 4), packs=packs(positive))
    assert "reference" in program.proof.runtime


def test_sizes_that_a_converter_returns_stay_sizes(grove):
    """A number beside a tensor is a size like any other, and one that is wrong is told."""
    exec("def counted(x):\n    return guarded(x), {'rows': x.shape[0], 'all': (x.shape[0], 1)}",
         grove.__dict__)  # fmt: skip

    @converter("grove.counted")
    def counted(op, x):
        return op.Relu(x), {"rows": x.shape[0], "all": (x.shape[0], 1)}

    def body(x):
        y, told = grove.counted(x)
        return y.reshape(told["rows"], 1, -1) / told["all"][0]

    def asked(of):
        return hx.export(Model(body), torch.randn(3, 4), dynamic={"x_0": {0: "n"}}, packs=packs(of))

    program = asked(counted)
    assert program.proof.ok and not program.report.escapes
    x = torch.randn(7, 4)
    torch.testing.assert_close(program.run(x), Model(body)(x))

    @converter("grove.counted")
    def miscounted(op, x):
        return op.Relu(x), {"rows": x.shape[0] + 1, "all": (x.shape[0], 1)}

    with pytest.raises(hx.ConverterError, match="returned 4, but .* itself returned 3"):
        asked(miscounted)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda op, x: op("Max", x), "names no operator"),
        (lambda op, x: op("grove", "Max", x, table={"a": 1}), "attribute table is a dict"),
        (lambda op, x: op("grove", "Max", x, of=object()), "attribute of is an object"),
    ],
    ids=["no domain", "a dict", "an object"],
)
def test_what_cannot_be_a_node_is_told_at_the_converters_line(grove, call, told):
    wrong = converter("grove.positive")(call)
    with pytest.raises(hx.HxError, match=told) as caught:
        hx.export(Model(grove.positive), torch.randn(4), packs=packs(wrong))
    assert f"{__file__}:{call.__code__.co_firstlineno}" in str(caught.value)


def test_a_domain_may_be_spelled_before_the_name(grove):
    """As `g.op("grove::Max", x)` has it."""

    @converter("grove.positive")
    def spelled(op, x):
        kinds = [(x.dtype, ("found",)), (torch.int64, ("found",))]
        return op("grove::Max", x, version=3, results=kinds)

    program = hx.export(Model(grove.positive), torch.randn(2, 4), packs=packs(spelled))
    assert program.proof.ok and program.model.opset_imports["grove"] == 3


def test_objects_that_are_called_are_targets_and_others_of_their_class_are_not(grove):
    exec("class Blur:\n    def __init__(self, by): self.by = by\n"
         "    def __call__(self, x): return x * self.by\nblur, other = Blur(3.0), Blur(5.0)",
         grove.__dict__)  # fmt: skip
    blur = converter("grove.blur")(lambda op, x: op.Mul(op.Identity(x), 3.0))
    program = hx.export(
        Model(lambda x: grove.blur(x) + grove.other(x)), torch.randn(2, 4), packs=packs(blur)
    )
    assert program.proof.ok and program.report.converters["grove.blur"] == 1


def test_beside_a_kernel_of_python_the_operators_of_onnx_are_onnxruntimes(grove):
    """onnx's own evaluator computes some of them otherwise than the standard says."""

    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(4)
            self.up = nn.ConvTranspose2d(4, 4, 3, stride=2, output_padding=1, groups=2)
            with torch.no_grad():
                self.norm.running_mean.uniform_(-1, 1)
                self.norm.running_var.uniform_(1, 3)

        def forward(self, x):
            y = self.up(self.norm(x.relu()))
            y = nn.functional.interpolate(y, scale_factor=1.5, mode="bicubic")
            found, at = grove.positive(y)
            return found * 2, at, y.sum(1), torch.where(y.mean() > 0, y + found.sum(), y)

    program = hx.export(
        Beside().eval(),
        torch.randn(2, 4, 5, 6),
        dynamic={"x": {0: "n", 3: "w"}},
        opset=13,
        packs=packs(positive),
    )
    assert program.proof.ok
    assert "onnxruntime" in program.proof.runtime and "grove::Max" in program.proof.runtime


def test_what_a_body_asks_of_a_size_is_nobodys_branch_where_a_converter_speaks_for_it(grove):
    exec("def spread(x, n):\n    return x.mean(0, keepdim=True) + x.new_zeros([n if n > 2 else 0 * n + n, 1])",
         grove.__dict__)  # fmt: skip

    @converter("grove.spread")
    def spread(op, x, n):
        rows = op.Expand(op.cast(op.constant(0.0), x.dtype), op.sizes([n, 1]))
        return op.Add(op.ReduceMean(x, [0]), rows)

    program = hx.export(
        Model(lambda x: grove.spread(x, x.shape[0] * 2)),
        torch.randn(3, 4),
        dynamic={"x_0": {0: "n"}},
        packs=packs(spread),
        strict=True,
    )
    assert program.proof.ok and not program.report.escapes

    @converter("grove.spread")
    def asks(op, x, n):
        return spread(op, x, n) if n > 2 else NotImplemented

    with pytest.raises(hx.EscapeError):
        hx.export(
            Model(lambda x: grove.spread(x, x.shape[0] * 2)),
            torch.randn(3, 4),
            dynamic={"x_0": {0: "n"}},
            packs=packs(asks),
            strict=True,
            verify=False,
        )


@pytest.mark.parametrize("view", ["slice", "rows", "turned", "whole"])
def test_a_function_that_fills_what_it_is_given(grove, view):
    """As compiled kernels do: memory that the model made, of which only a part is written."""
    exec("def filled(x, out):\n    out.copy_(x * 2)", grove.__dict__)
    filled = converter("grove.filled")(lambda op, x, out: op.assign(out, op.Mul(x, 2.0)))

    def body(x):
        out = torch.zeros(4, 3)
        if view == "slice":
            grove.filled(x, out[1:3])
        elif view == "rows":
            for row, place in zip(x, out):
                grove.filled(row, place)
        elif view == "turned":
            grove.filled(torch.cat([x, x]).T, out.T)
        else:
            grove.filled(torch.cat([x, x]), out)
        return out + 1

    program = hx.export(Model(body), torch.randn(2, 3), packs=packs(filled))
    x = torch.randn(2, 3)
    torch.testing.assert_close(program.run(x), body(x))


def test_an_object_that_hides_tensors_is_described_by_a_container_or_refused(grove):
    """Else what a converter says of it would be lost, and what its body computed a constant."""
    exec("class Hidden:\n    def __init__(self, x): self.x = x\n"
         "def hidden(x): return Hidden(torch.from_numpy(x.numpy() * 2))", grove.__dict__)  # fmt: skip
    hidden = converter("grove.hidden")(lambda op, x: grove.Hidden(op.Mul(x, 2.0)))
    for verify in (True, False):
        with pytest.raises(
            hx.ConverterError, match="returns a Hidden, which holds tensors"
        ) as caught:
            hx.export(
                Model(lambda x: grove.hidden(x).x + 1),
                torch.randn(3),
                packs=packs(hidden),
                verify=verify,
            )
        assert "hx_containers()" in str(caught.value)


def test_a_container_that_takes_nothing_apart_is_named(grove, monkeypatch):
    wrong = Container("grove.Points", lambda p: [p.values, p.places], remake)
    monkeypatch.setitem(globals(), "POINTS", wrong)
    points = grove.Points(torch.randn(3, 2), torch.arange(6).reshape(3, 2))
    with pytest.raises(hx.ConverterError, match="container of grove.Points .* flatten gave a list"):
        hx.export(Model(lambda x: grove.scaled(points, 2.0).values + x), torch.randn(3, 2),
                  packs=packs(scaled))  # fmt: skip


@pytest.mark.parametrize(
    "flatten, unflatten, told",
    [
        (
            POINTS.flatten,
            lambda parts, rest: None,
            "grove.Points (grove[main]): unflatten gave None",
        ),
        (POINTS.flatten, lambda parts, rest: tuple(parts), "unflatten gave a tuple"),
        (
            lambda points: ({"values": points.values}, None),
            lambda parts, rest: sys.modules["grove"].Points(parts["values"], parts.get("places")),
            "container of grove.Points (grove[main]) leaves out places: flatten at",
        ),
    ],
)
def test_a_container_that_puts_together_something_else_is_named(
    grove, monkeypatch, flatten, unflatten, told
):
    """And not the model, which fails on what it is given then."""
    mine = Container("grove.Points", flatten, unflatten, pack="grove[main]")
    monkeypatch.setitem(globals(), "POINTS", mine)
    points = grove.Points(torch.randn(3, 2), torch.arange(6).reshape(3, 2))
    with pytest.raises(hx.ConverterError) as caught:
        hx.export(Model(lambda p: p.values + p.places), (points,), packs=packs(scaled))
    assert told in str(caught.value) and f"at {__file__}:" in str(caught.value)


def test_a_model_that_runs_in_no_other_way_than_recorded_is_told_first(grove):
    grove.tanh = lambda x: torch.from_numpy(np.tanh(x.numpy()))

    @converter("grove.tanh")
    def tanh(op, x):
        return op.Tanh(x)

    registry = Registry.installed()
    registry.add(tanh)
    program = hx.export(lambda x: torch.vmap(grove.tanh)(x), torch.randn(2, 3), packs=registry)
    assert program.report.notes[0].startswith(
        "the model itself cannot be run: nothing but the recording was compared (Cannot access"
    )
    assert not any("refuses" in note for note in program.report.notes)
