"""Every way of naming and of reaching a callable: the converter that is meant is the one asked."""

from __future__ import annotations

import functools
import sys

import pytest
import torch
import torch.nn.functional as F
from called import Call, asked, speaks
from torch import nn
from torch.nn.functional import relu as imported_relu

import hx
from hx import converter


def relu_by_max(op, x, *rest, **names):
    return op.Max(x, 0.0)


@pytest.mark.parametrize(
    "target", ["torch.relu", "torch.Tensor.relu", "torch.ops.aten.relu", "aten::relu"]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: torch.relu(x),
        lambda m, x: x.relu(),
        lambda m, x: torch.ops.aten.relu(x),
        lambda m, x: torch.ops.aten.relu.default(x),
        lambda m, x: F.relu(x),
        lambda m, x: imported_relu(x),
        lambda m, x: nn.ReLU()(x),
        lambda m, x: (x * 1).relu_(),
        lambda m, x: F.relu(x * 1, inplace=True),
        lambda m, x: functools.partial(F.relu, inplace=False)(x),
    ],
)
def test_an_operator_by_each_of_its_names(target, call):
    mine = speaks(target, relu_by_max)
    # Without the standard pack's own converter of F.relu, the calls inside are asked.
    registry = [mine, converter("torch.mul")(lambda op, x, y: op.Mul(x, y))]
    program = asked(Call(call), torch.randn(2, 3), *registry, alone=True)
    assert mine.calls == 1
    assert "Max" in program.ops and "Relu" not in program.ops


@pytest.mark.parametrize("target", ["torch.Tensor.__add__", "torch.add", "torch.Tensor.add",
                                    "torch.Tensor.__radd__", "aten::add"])  # fmt: skip
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: 1 + x,
        lambda m, x: x + 1,
        lambda m, x: x.add(1),
        lambda m, x: torch.add(x, 1),
        lambda m, x: torch.add(input=x, other=1),
        lambda m, x: torch.ops.aten.add(x, 1),
        lambda m, x: torch.ops.aten.add.Scalar(x, 1),
        lambda m, x: sum([x]) + 0,
        lambda m, x: sum((1, x)),
        lambda m, x: torch.add(x, 1, out=torch.empty(2, 3)),
    ],
)
def test_addition_by_each_of_its_spellings(target, call):
    mine = speaks(
        target, lambda op, input, other, alpha=1: op.Sum(input, op.cast(other, input.dtype))
    )
    asked(Call(call), torch.randn(2, 3), mine, alone=True)
    assert mine.calls >= 1


@pytest.mark.parametrize("target", ["torch.nn.Conv2d", "torch.nn.Conv2d.forward",
                                    "torch.nn.modules.conv.Conv2d"])  # fmt: skip
def test_a_module_by_its_class_or_its_forward(target):
    def conv(op, self, input):
        return op.Conv(input, self.weight, self.bias)

    mine = speaks(target, conv)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 1, 3))
    program = asked(model, torch.randn(1, 1, 5, 5), mine, alone=True)
    assert mine.calls == 2
    assert program.ops == ["Conv", "Conv"]
    assert program.report.converters == {target: 2}


def test_a_property_and_a_subscript():
    mine = [
        speaks("torch.Tensor.T.__get__", lambda op, self: op.Transpose(self, perm=[1, 0])),
        speaks("torch.Tensor.__getitem__", lambda op, self, index: op.Gather(self, index, axis=0)),
    ]
    program = asked(Call(lambda m, x: x.T[1]), torch.randn(2, 3), *mine, alone=True)
    assert program.ops == ["Transpose", "Gather"]


def test_names_of_one_operator_by_several_converters():
    """Who wins does not hang on which of the names stands first: what was added by hand does."""
    mine = speaks("torch.Tensor.__mul__", lambda op, x, y: op.Sum(x, x))
    program = asked(Call(lambda m, x: x * 2), torch.randn(2, 3), mine)
    assert mine.calls == 1 and "Sum" in program.ops

    one = speaks("torch.mul", lambda op, x, y: op.Sum(x, x))
    two = speaks("torch.Tensor.mul", lambda op, x, y: op.Add(x, x))
    with pytest.raises(hx.PackError, match="converted 2 times"):
        asked(Call(lambda m, x: x * 2), torch.randn(2, 3), one, two)
    one = speaks("torch.mul", lambda op, x, y: op.Sum(x, x), priority=1)
    assert "Sum" in asked(Call(lambda m, x: x * 2), torch.randn(2, 3), two, one).ops


class Deeper(nn.Conv2d):
    pass


class Padded(nn.Conv2d):
    def forward(self, x):
        return super().forward(F.pad(x, (1, 1, 1, 1)))


def test_subclasses_of_a_module():
    mine = speaks("torch.nn.Conv2d", lambda op, self, x: op.Conv(x, self.weight, self.bias))
    x = torch.randn(1, 1, 5, 5)
    assert asked(Deeper(1, 2, 3), x, mine, alone=True).ops == ["Conv"]
    assert asked(Padded(1, 2, 3), x, mine).ops == ["Pad", "Conv"]
    assert mine.calls == 2


# Who is asked first.


class Doubled(nn.Module):
    def forward(self, x):
        return F.relu(x) * 2


def test_the_outermost_wins_and_may_decline():
    outer = speaks(f"{__name__}.Doubled", lambda op, self, x: op.Mul(op.Max(x, 0.0), 2.0))
    sys.modules.setdefault(__name__, sys.modules[Doubled.__module__])
    program = asked(Doubled(), torch.randn(2, 3), outer)
    assert program.ops == ["Max", "Mul"]

    def no(op, self, x):
        return NotImplemented

    outer = speaks(f"{__name__}.Doubled", no)
    middle = speaks("torch.nn.functional.relu", lambda op, input, inplace=False: NotImplemented)
    inner = speaks("torch.relu", relu_by_max)
    program = asked(Doubled(), torch.randn(2, 3), outer, middle, inner)
    assert (outer.calls, middle.calls, inner.calls) == (1, 1, 1)
    assert program.ops == ["Max", "Mul"]
    assert program.report.declined == {f"{__name__}.Doubled": 1, "torch.nn.functional.relu": 1}


def test_nodes_of_a_converter_that_declines_in_the_end_are_gone():
    def half(op, input, inplace=False):
        op.Exp(input)
        return NotImplemented

    program = asked(Doubled(), torch.randn(2, 3), speaks("torch.nn.functional.relu", half))
    assert program.ops == ["Relu", "Mul"]


def test_a_converter_that_declines_with_the_result_in_hand():
    def late(op, x):
        assert op.result.shape == (2, 3)
        return NotImplemented

    mine = speaks("torch.relu", late)
    with pytest.raises(hx.MissingConverters, match=r"torch\.relu|relu"):
        asked(Call(lambda m, x: torch.relu(x)), torch.randn(2, 3), mine, alone=True)


# Modules of unusual kinds.


def test_forwards_of_instances():
    x = torch.randn(2, 3)
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    model[0].forward = lambda x: torch.sigmoid(x)
    model[1].forward = functools.partial(lambda k, x: x * k, 3.0)
    assert asked(model, x).ops == ["Sigmoid", "Mul"]

    def doubled(self, x):
        return type(self).forward(self, x) * 2

    model = nn.Linear(3, 4)
    model.forward = doubled.__get__(model)
    assert asked(model, x).ops in (["Gemm", "Mul"], ["MatMul", "Add", "Mul"])


def test_modules_in_containers_that_are_called_by_hand():
    class Routes(nn.Module):
        def __init__(self):
            super().__init__()
            self.routes = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
            self.plain = [nn.Sigmoid()]  # not registered

        def forward(self, x):
            for route in self.routes.values():
                x = route(x)
            return self.plain[0].forward(x)

    assert asked(Routes(), torch.randn(2, 3)).ops == ["Relu", "Tanh", "Sigmoid"]


def test_compiled_modules_run_as_they_were_written():
    class Model(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.tail = nn.Linear(3, 3)

        def forward(self, x):
            return self.tail(self.inner(x)) + helper(x)

    @torch.compile(backend="eager")
    def helper(x):
        return torch.tanh(x)

    x = torch.randn(2, 3)
    inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    plain = asked(Model(inner), x)
    nested = asked(Model(torch.compile(inner, backend="eager")), x)
    root = asked(torch.compile(Model(inner), backend="eager"), x)
    in_place = Model(inner)
    in_place.compile(backend="eager")
    placed = asked(in_place, x)
    assert plain.ops == nested.ops == root.ops == placed.ops
    assert set(root.model.graph.initializers) == set(plain.model.graph.initializers)
    assert "inner.0.weight" in plain.model.graph.initializers
    assert "inner._orig_mod.0.weight" in nested.model.graph.initializers  # as in its state_dict

    function = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")
    assert asked(function, x).ops == ["Relu", "Add"]


def test_data_parallel():
    """Its inputs have the names of what it wraps; `dynamic=` may say them by its own."""
    model = nn.DataParallel(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    for name in ("input", "inputs_0"):
        program = asked(model, torch.randn(2, 3), dynamic={name: {0: "b"}})
        assert program.model.graph.inputs[0].name == "input"
        assert [str(size) for size in program.model.graph.inputs[0].shape] == ["b", "3"]
    assert program.ops[-1] == "Relu"
    assert "module.0.weight" in program.model.graph.initializers


def test_arguments_by_the_names_that_numpy_has_for_them():
    def model(x):
        return (
            torch.softmax(a=x, axis=1),
            torch.add(x1=x, x2=x),
            torch.sum(x=x, axis=0, keepdims=True),
        )

    x = torch.randn(3, 4)
    for mine, real in zip(hx.export(model, x, dynamic={"x": {0: "n"}}).run(x), model(x)):
        torch.testing.assert_close(mine, real)
