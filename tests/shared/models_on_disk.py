"""Small models to save, how one on disk is checked, and saves that run in another process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import onnx
import onnx_ir as ir
import torch
from onnx import numpy_helper

from hx.saving import save
from hx.saving.weights import TorchTensor

HEAD = f"""
import os, resource, signal, sys
sys.path[:0] = [{str(Path(save.__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]
from pathlib import Path
import torch
from hx.saving import claims, save
from hx.errors import ExportError, UsageError
from models_on_disk import chain, names, square, value_of
"""


def value_of(tensor, name):
    tensor = TorchTensor(tensor) if isinstance(tensor, torch.Tensor) else tensor
    return ir.Value(
        name=name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor
    )


def chain(*weights, metadata=None):
    """x @ w0 @ w1 ..."""
    at = start = ir.Value(
        name="x", shape=ir.Shape(["n", weights[0].shape[0]]), type=ir.TensorType(ir.DataType.FLOAT)
    )
    values = [value_of(w, f"layer{i}.weight") for i, w in enumerate(weights)]
    nodes = []
    for i, value in enumerate(values):
        nodes.append(ir.node("MatMul", [at, value], name=f"layer{i}"))
        at = nodes[-1].outputs[0]
        at.name = f"y{i}"
    at.type, at.shape = start.type, ir.Shape(["n", weights[-1].shape[1]])
    graph = ir.Graph(
        [start], [at], nodes=nodes, initializers=values, opset_imports={"": 20}, name="main"
    )
    return ir.Model(graph, ir_version=9, producer_name="hx", metadata_props=metadata or {})


def square(n=64, count=3, seed=0):
    torch.manual_seed(seed)
    return chain(*(torch.randn(n, n) / n**0.5 for _ in range(count)))


def check(path, model):
    """The file holds the model: valid, loadable, with the same weights."""
    onnx.checker.check_model(str(path), full_check=True)
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    wanted = {name: v.const_value.numpy() for name, v in model.graph.initializers.items()}
    assert list(loaded) == list(wanted)
    for name, array in wanted.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes(), name
    again = {name: v.const_value.numpy() for name, v in ir.load(path).graph.initializers.items()}
    assert all(again[name].tobytes() == wanted[name].tobytes() for name in wanted)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def run(code, *args, **options):
    """Run code as another process, with `square` and `save` at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
