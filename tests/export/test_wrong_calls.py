"""`hx.export` called with something else than it takes: what is wrong, in a line, before any work."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import hx

X = torch.randn(2, 3)


def masked():
    return torch.masked.masked_tensor(X, X > 0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: hx.export(nn.ReLU, X), "ReLU is a class\n  hint:  make one"),
        (lambda: hx.export(nn.ReLU(), X, packs=["standard"]), "has to be an hx.Registry"),
        (lambda: hx.scan(nn.ReLU(), X, packs="standard"), "has to be an hx.Registry"),
        (lambda: hx.export(nn.ReLU(), X, 5), "path cannot be 5"),
        (lambda: hx.export(nn.ReLU(), X.to("meta")), "input is on the meta device"),
        (lambda: hx.export(lambda x: x + 1, np.ones(3)), "torch.from_numpy(x)"),
        (lambda: hx.export(nn.ReLU(), masked()), "a MaskedTensor, whose class does the work"),
        (lambda: hx.export(nn.ReLU(), X, output_names=[""]), "'' is not a name"),
        (lambda: hx.export(nn.ReLU(), X, input_names=[0]), "0 is not a name"),
        (lambda: hx.export(lambda x: (x, -x), X, output_names=["y", "y"]), "repeats a name: y, y"),
        (lambda: hx.export(nn.ReLU(), X, output_names=["input"]), "is the name of an input"),
        (lambda: hx.export(nn.ReLU(), X).run(None), "the input input is no tensor: None"),
        (lambda: hx.export(nn.ReLU(), X).run("a"), "the input input is no tensor: 'a'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*MaskedTensors")
def test_what_is_wrong_is_said(call, told):
    with pytest.raises(hx.UsageError) as caught:
        call()
    assert told in str(caught.value)


def test_an_exported_program_is_its_module(proved):
    exported = torch.export.export(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (X,))
    torch.testing.assert_close(hx.export(exported, X).run(X), exported.module()(X))


def test_a_function_may_be_given_the_modules_that_it_calls():
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Dropout(0.5)]).train()

    def f(x, layer, *, last):
        return last(layer(x))

    program = hx.export(f, (X, layers[0]), kwargs={"last": layers[1]})
    assert layers.training and "Dropout" not in str([n.op_type for n in program.model.graph])
    torch.testing.assert_close(program.run(X, layers[0], last=layers[1]), layers[0](X))


def test_a_converter_by_hand_whose_target_is_misspelt_is_told():
    @hx.converter("torch.nn.functional.reluu")
    def misspelt(op, input):
        return op.Relu(input)

    registry = hx.Registry.installed()
    registry.add(misspelt)
    (note,) = hx.export(nn.ReLU(), X, packs=registry).report.notes
    assert "torch.nn.functional has no 'reluu'" in note


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            lambda op, x, inplace=False: op.Concat(x, x, axis="1"),
            "Concat: attribute axis cannot be '1'",
        ),
        (
            lambda op, x, inplace=False: op.Transpose(x, perm="10"),
            "Transpose: attribute perm cannot be '10'",
        ),
        (lambda op, x, inplace=False: op.Add(x, torch.ones(3)), "op.constant(tensor)"),
        (lambda op, x, inplace=False: op.Add(x, np.array(["a"] * 40)), "'a', ... (ndarray)"),
        (
            lambda op, x, inplace=False: op.Add(x, op.constant([1, 2, 3])),
            "float32 (input 0) and int64 (input 1)",
        ),
        (
            lambda op, x, inplace=False: op.Transpose(op.Neg(x), perm=[0, 1, 2]),
            "perm [0, 1, 2] is not a permutation of the axes of an input of rank 2",
        ),
        (
            lambda op, x, inplace=False: op.Transpose(op.Transpose(x, perm=[0, 5]), perm=[1, 0]),
            "perm [0, 5] is not a permutation of the axes of an input of rank 2",
        ),
    ],
)
def test_a_converter_is_told_what_a_node_cannot_have(written, told):
    registry = hx.Registry.installed()
    registry.add(hx.converter("torch.nn.functional.silu")(written))
    with pytest.raises(hx.BuilderError) as caught:
        hx.export(nn.SiLU(), X, packs=registry)
    assert told in str(caught.value)
    assert f"(local) at {__file__}:" in caught.value.why


@pytest.mark.parametrize("name, count", [("Where", 3), ("Not", 1)])
def test_what_takes_no_numbers_is_told_with_what_it_takes(name, count):
    registry = hx.Registry.installed()
    written = hx.converter("torch.nn.functional.silu")
    registry.add(written(lambda op, x, inplace=False: getattr(op, name)(*[x] * count)))
    with pytest.raises(hx.Unsupported, match=f"{name} takes no float32") as caught:
        hx.export(nn.SiLU(), X, packs=registry)
    assert caught.value.hint == "cast to bool first"


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("sizes, attributes", [([], {"num_outputs": 3}), ([[1, 1, 1]], {})])
def test_a_split_has_as_many_outputs_as_it_says(sizes, attributes, opset):
    @hx.converter("torch.nn.functional.silu")
    def silu(op, input, inplace=False):
        first, second, third = op.Split(input, *sizes, axis=1, **attributes)
        return op.Mul(input, op.Sigmoid(op.Concat(first, second, third, axis=1)))

    registry = hx.Registry.installed()
    registry.add(silu)
    assert hx.export(nn.SiLU(), X, packs=registry, opset=opset).proof.ok


def test_a_converter_may_give_arrays_of_numpy():
    @hx.converter("torch.nn.functional.silu")
    def silu(op, input, inplace=False):
        one = op.constant(np.ones(3, np.float32))
        return op.Mul(op.Mul(input, op.Sigmoid(input)), op.Mul(one, np.ones(3)))

    registry = hx.Registry.installed()
    registry.add(silu)
    assert hx.export(nn.SiLU(), X, packs=registry).proof.ok


@pytest.mark.parametrize(
    "written",
    [
        lambda op, x, inplace=False: x * 2.0,
        lambda op, x, inplace=False: torch.mul(x, 2.0),
        lambda op, x, inplace=False: x.mul(2.0),
    ],
)
def test_a_converter_that_computes_with_values_is_told_how_nodes_are_written(written):
    registry = hx.Registry.installed()
    registry.add(hx.converter("torch.nn.functional.silu")(written))
    with pytest.raises(hx.ConverterError) as caught:
        hx.export(nn.SiLU(), X, packs=registry)
    assert "op.Mul(x, y) in place of x * y" in caught.value.hint


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float16])
@pytest.mark.parametrize(
    ("model", "shape"), [(nn.Conv2d(3, 8, 3), (1, 3, 8, 8)), (nn.Linear(3, 4), (2, 3))]
)
def test_an_input_of_a_wrong_dtype_is_told_as_pytorch_tells_it(model, shape, dtype):
    x = torch.zeros(shape).to(dtype)
    with pytest.raises(RuntimeError) as own:
        model(x)
    with pytest.raises(RuntimeError) as caught:
        hx.export(model, x)
    assert str(caught.value) == str(own.value)


def test_a_converter_that_is_wrong_is_told_where_the_call_is_right():
    registry = hx.Registry.installed()
    asked = []

    @hx.converter("torch.nn.functional.silu")
    def silu(op, input, inplace=False):
        asked.append(input)
        return op.Add(input, op.constant([1, 2, 3]))

    registry.add(silu)
    with pytest.raises(hx.BuilderError, match="inputs of one dtype"):
        hx.export(nn.SiLU(), X, packs=registry)
    assert asked


@pytest.mark.parametrize(
    ("target", "written", "call", "told"),
    [
        (
            "torch.nn.functional.gelu",
            lambda op, input: op.Relu(input),
            lambda x: nn.functional.gelu(x, approximate="tanh"),
            "has no parameter for approximate, which the model passes",
        ),
        (
            "torch.clamp",
            lambda op, input, min: op.Relu(input),
            lambda x: torch.clamp(x, 0, 1),
            "has no parameter for max, which the model passes",
        ),
        (
            "torch.nn.functional.softplus",
            lambda op, input, beta: op.Softplus(input),
            lambda x: nn.functional.softplus(x),
            "asks for beta, which the model does not pass",
        ),
    ],
)
def test_a_converter_with_other_parameters_than_the_call_is_named(target, written, call, told):
    registry = hx.Registry.installed()
    registry.add(hx.converter(target)(written))
    with pytest.raises(hx.ConverterError) as caught:
        hx.export(call, X, packs=registry)
    line = written.__code__.co_firstlineno
    assert f"the converter of {target} (local) {told}" in caught.value.what
    assert f"{__file__}:{line}: def <lambda>(op, input" in caught.value.why
    assert "TypeError" not in str(caught.value)


def test_a_type_error_within_a_converter_is_its_own():
    registry = hx.Registry.installed()
    registry.add(hx.converter("torch.relu")(lambda op, input: len(3)))
    with pytest.raises(hx.ConverterError, match="raised TypeError: object of type 'int'"):
        hx.export(torch.relu, X, packs=registry)
