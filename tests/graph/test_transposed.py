"""Weights that a graph would only transpose, and those that something else reads, too."""

from __future__ import annotations

import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import hx

ANY = {"dynamic": {"x": {0: "n", 1: "m"}}}


def stored(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def ops(path):
    return [node.op_type for node in onnx.load(path).graph.node]


class Twice(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize("sizes", [(6, 5), (700, 500), (1, 7), (7, 1)], ids=str)
def test_a_linear_layer_on_three_axes_has_nothing_to_transpose(tmp_path, sizes, external):
    model, path = nn.Linear(*sizes), tmp_path / "m.onnx"
    x = torch.randn(2, 3, sizes[0])
    hx.export(model, x, path, dynamic={"input": {0: "n", 1: "m"}}, external_data=external)
    assert ops(path) == ["MatMul", "Add"]
    found = stored(path)
    assert list(found) == ["weight.transposed", "bias"]
    assert (found["weight.transposed"] == model.weight.detach().numpy().T).all()


def test_large_weights_are_turned_piece_by_piece_and_written_ahead(tmp_path):
    """By the second thread too, which makes the same bytes."""
    model = Twice(nn.Linear(900, 1500), nn.Linear(1500, 700)).eval()
    x = torch.randn(2, 3, 900)
    threads = torch.get_num_threads()
    try:
        for count in (1, threads + 8):  # a core is idle, and none is
            torch.set_num_threads(count)
            hx.export(model, x, tmp_path / f"{count}.onnx", **ANY)
    finally:
        torch.set_num_threads(threads)
    a, b = ((tmp_path / f"{count}.onnx").read_bytes() for count in (1, threads + 8))
    assert a == b and "Transpose" not in ops(tmp_path / "1.onnx")
    found = stored(tmp_path / "1.onnx")
    for layer in ("first", "second"):
        wanted = getattr(model, layer).weight.detach().numpy().T
        assert (found[f"{layer}.weight.transposed"] == wanted).all()


def test_a_weight_that_is_read_as_it_is_too_is_stored_once_and_as_it_is(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(30, 8), nn.Linear(8, 30, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x):
            return self.head(self.words(x))

    path = tmp_path / "m.onnx"
    hx.export(Tied(), torch.randint(30, (2, 5)), path, **ANY)
    assert ops(path) == ["Gather", "Transpose", "MatMul"] and list(stored(path)) == ["words.weight"]


def test_layers_that_share_a_weight_share_what_is_stored(tmp_path):
    layer, path = nn.Linear(6, 6), tmp_path / "m.onnx"
    hx.export(Twice(layer, layer), torch.randn(2, 3, 6), path, **ANY)
    assert ops(path) == ["MatMul", "Add"] * 2
    assert list(stored(path)) == ["first.weight.transposed", "first.bias"]


def test_on_two_axes_and_on_three_the_weight_stays(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            return self.layer(x), self.layer(x[0])

    path = tmp_path / "m.onnx"
    hx.export(Both(), torch.randn(2, 3, 6), path, **ANY)
    assert ops(path).count("Transpose") == 1 and set(stored(path)) >= {"layer.weight", "layer.bias"}


def test_a_transposed_weight_that_is_an_output_is_right(tmp_path):
    class Shows(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 5)

        def forward(self, x):
            return self.layer(x), self.layer.weight.t()

    assert hx.export(Shows(), torch.randn(2, 3, 6), tmp_path / "m.onnx", **ANY).proof.ok


@pytest.mark.parametrize(
    "make",
    [
        lambda w: w.t().contiguous().t(),
        lambda w: w[:1].expand(5, 6),
        lambda w: torch.randn(10, 12)[::2, ::2],
        lambda w: torch.randn(5, 6, dtype=torch.float64),
        lambda w: w.half(),
        lambda w: w.bfloat16(),
    ],
    ids=["turned", "expanded", "every other", "double", "half", "bfloat16"],
)
def test_weights_of_other_layouts_and_dtypes(tmp_path, make):
    layer = nn.Linear(6, 5)
    layer.weight = nn.Parameter(make(layer.weight.detach()), requires_grad=False)
    layer.bias = nn.Parameter(layer.bias.detach().to(layer.weight.dtype), requires_grad=False)
    x = torch.randn(2, 3, 6, dtype=layer.weight.dtype)
    program = hx.export(layer, x, tmp_path / "m.onnx", dynamic={"input": {0: "n"}})
    assert program.proof.ok and "Transpose" not in ops(tmp_path / "m.onnx")


def test_cast_weights_are_turned_and_streamed_ones_are_not(tmp_path):
    model, x = nn.Linear(600, 500), torch.randn(2, 3, 600)
    path = tmp_path / "m.onnx"
    hx.export(model, x, path, dtype="float16")
    wanted = model.weight.detach().half().numpy()
    assert (stored(path)["weight.transposed"] == wanted.T).all()
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    with torch.device("meta"):
        empty = nn.Linear(600, 500)
    program = hx.export(empty, x, path, weights=tmp_path / "w.safetensors")
    assert program.proof.ok and (stored(path)["weight"] == model.weight.detach().numpy()).all()


def test_in_the_body_of_a_loop(tmp_path):
    class Loops(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            def body(i, y):
                return i + 1, torch.tanh(self.layer(y))

            start = (torch.tensor(0), x)
            return torch.while_loop(lambda i, y: i < x.shape[0], body, start)[1]

    path = tmp_path / "m.onnx"
    assert hx.export(Loops(), torch.randn(2, 3, 6), path, **ANY).proof.ok
    assert "layer.weight.transposed" in stored(path)
    (loop,) = (n for n in onnx.load(path).graph.node if n.op_type == "Loop")
    (body,) = (a.g for a in loop.attribute if a.name == "body")
    assert "Transpose" not in [node.op_type for node in body.node]


def test_the_model_in_memory_has_them_as_well():
    layer = nn.Linear(6, 5)
    program = hx.export(layer, torch.randn(2, 3, 6))
    tensor = program.model.graph.initializers["weight.transposed"].const_value
    assert (tensor.numpy() == layer.weight.detach().numpy().T).all()
