"""A program runs in onnxruntime, and takes and gives what its model does."""

from __future__ import annotations

import collections
import dataclasses
import re

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import hx

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Found:
    scores: torch.Tensor
    parts: list
    note: str = "as it was"


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, more, scale=2, flip=False):
        y = self.linear(x) * scale
        y = y.flip(0) if flip else y
        return Found(y, [Pair(more["a"] + 1, more["b"][0] * y.sum()), x.shape[0], None])


X = torch.randn(2, 3)
MORE = {"a": torch.ones(4), "b": [torch.arange(3.0)]}


def same(got, want):
    torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want), rtol=1e-4, atol=1e-5)


def test_results_have_the_structure_of_the_models_own():
    model = Nested().eval()
    program = hx.export(model, (X, MORE), dynamic={"x": {0: "n"}})
    fresh = torch.randn(5, 3)
    want, got = model(fresh, MORE), program.run(fresh, MORE)
    assert type(got) is Found and got.note == "as it was"
    assert type(got.parts[0]) is Pair and got.parts[1:] == [5, None]
    same(got.scores, want.scores.detach())
    same(got.parts[0].right, want.parts[0].right.detach())
    same(program.run(more=MORE, x=fresh, scale=2).scores, want.scores.detach())


def test_numpy_in_numpy_out_and_one_dict_by_name():
    program = hx.export(Nested(), (X, MORE))
    feeds = {"x": X.numpy(), "more_a": MORE["a"].numpy(), "more_b_0": MORE["b"][0].numpy()}
    got = program.run(feeds)
    assert isinstance(got.scores, np.ndarray) and isinstance(got.parts[0].left, np.ndarray)
    same(got.scores, program.run(X, MORE).scores)
    assert isinstance(program.run({**feeds, "x": X}).scores, torch.Tensor)


def test_a_single_tensor_and_a_model_that_takes_a_dict():
    program = hx.export(nn.ReLU(), X)
    assert torch.equal(program.run(X), X.relu())
    taking = hx.export(lambda batch: batch["x"] * batch["k"], ({"x": X, "k": X[0]},))
    same(taking.run({"x": X, "k": X[1]}), X * X[1])
    assert taking.run({"batch_x": X, "batch_k": X[1]}).shape == X.shape


def test_layers_that_were_asked_for_come_by_path():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()
    got = hx.export(model, X, outputs=["0", "1"]).run(X)
    assert list(got) == ["0", "1"]
    same(got["1"], model(X).detach())


def test_what_was_written_is_what_runs(tmp_path):
    model = nn.Linear(3, 2).eval()
    want = model(X).detach()
    program = hx.export(model, X, tmp_path / "m.onnx")
    with torch.no_grad():
        model.weight.zero_()
    same(program.run(X), want)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {}, "the input more_a is missing"),
        ((X.double(), MORE), {}, "the input x is float32, but float64 was given"),
        ((X, MORE), {"scale": 3}, "scale was 2 at the export"),
        ((X, MORE), {"flip": True}, "flip: not given at the export"),
        ((X[:1], MORE), {}, "'x'"),
        (({"x": X},), {}, "by name: x, more_a, more_b_0"),
    ],
)
def test_inputs_that_do_not_fit_are_named(args, kwargs, message):
    program = hx.export(Nested(), (X, MORE), kwargs={"scale": 2})
    with pytest.raises(hx.UsageError) as caught:
        program.run(*args, **kwargs)
    assert message in str(caught.value)


def test_a_report_is_printed_in_words():
    report = hx.export(nn.Linear(64, 32), torch.randn(2, 64), dynamic={"input": {0: "n"}}).report
    said = str(report).splitlines()
    assert said[0].split() == ["inputs", "input", "float32[n,64]"] and said[-1] == "ok"
    (proof,) = [line for line in said if line.startswith("proof")]
    assert re.fullmatch(
        r"proof +max error \de-\d+ \(limit \de-\d+\), \d+ input sets, n 1 to \d+", proof
    )
    looked = str(hx.scan(lambda x: x * float(x.sum()), torch.randn(3)))
    assert "item of one value" in looked and not re.search("^graph ", looked, re.M)


def test_nodes_by_pack_are_told_of_what_no_graph_was_made_of():
    def model(x):
        torch.sin(x)  # which no output needs
        return x * float(x.sum())

    expected = hx.scan(model, torch.ones(3)).packs
    assert expected["hx[standard]"] >= 3
    with pytest.raises(hx.EscapeError) as caught:
        hx.export(model, torch.ones(3), strict=True, verify=False)
    assert caught.value.report.packs == expected


def test_what_is_changed_in_the_model_is_run():
    x = torch.randn(2, 3)
    program = hx.export(lambda x: x * torch.tensor([2.0, 3.0, 4.0]), x)
    plain = program.run(x)
    graph = program.model.graph
    assert torch.equal(program.run(x), plain)
    (node,) = graph
    node.op_type = "Add"
    assert torch.equal(program.run(x), x + torch.tensor([2.0, 3.0, 4.0]))
    (weight,) = graph.initializers.values()
    weight.const_value = ir.tensor(np.ones(3, np.float32), name=weight.name)
    assert torch.equal(program.run(x), x + 1)


def test_a_program_that_is_saved_elsewhere_tells_of_that_file_and_runs_it(tmp_path):
    model, x = nn.Linear(64, 64), torch.randn(2, 64)
    program = hx.export(model, x, tmp_path / "one.onnx", external_data=True)
    plain, before = program.run(x), program.report.data_path
    (node,) = program.model.graph
    node.attributes["alpha"] = ir.AttrFloat32("alpha", 0.0)
    program.save(tmp_path / "two.onnx", external_data=True)
    assert program.report.data_path not in (None, before)
    assert not torch.equal(program.run(x), plain)
    program.save(tmp_path / "three.onnx", external_data=False)
    assert program.report.data_path is None and "weights in" not in str(program.report)
