"""Converters that lose rows of a far batch, where a run with so many rows takes too long."""

from __future__ import annotations

import onnx
import pytest
import torch
from tests.shared.proof_cases import with_converter
from tests.suites.planted import graph_places, mistakes
from torch import nn

import hx
from hx.proof.proving import prove_program
from hx.proof.subject import Subject


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 7, 1, 3)
        self.second = nn.Conv2d(64, 64, 3, 1, 1)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).mean((2, 3)))


def exported(packs=None, path=None):
    x = torch.randn(3, 3, 48, 48)
    return hx.export(Pictures(), x, path, dynamic={"x": {0: "batch"}}, packs=packs)


def test_no_more_runs_of_a_model_whose_calls_are_right():
    program = exported()
    assert program.proof.ok and not program.report.promised
    assert program.proof.sizes["batch"][1] < 131


@pytest.mark.parametrize("most", [50, 200])
def test_rows_that_a_convolution_loses_are_found(most):
    @hx.converter("torch.nn.functional.conv2d", cases=[])
    def first_rows(op, input, weight, bias, stride, padding, dilation, groups):
        found = op.Conv(input, weight, bias, strides=[*stride], pads=[*padding] * 2)
        row = op.Unsqueeze(op.Range(0, input.shape[0], 1), [1, 2, 3])
        return op.Mul(found, op.cast(op.Less(row, most), torch.float32))

    program = exported(with_converter(first_rows))
    assert program.report.promised == {"batch": f"batch<={most}"}


@pytest.mark.parametrize("way", ["zeroed", "repeated"])
def test_rows_that_the_file_alone_loses_are_found(tmp_path, way):
    path = tmp_path / "pictures.onnx"
    program = exported(path=path)
    file = onnx.load(path)
    name = next(node.output[0] for node in file.graph.node if node.op_type == "Conv")
    seen = graph_places.Seen({name: "float32"}, {name: 4}, {name: [0]})
    lost = {each.name: each for each in mistakes.lost_rows(file, seen)}
    onnx.save(lost[f"{name} axis 0 past 50 {way}"].planted(file), path)
    subject = Subject.of(program._trace, program._subject.recorder)
    assert prove_program(subject, path, path).ok
    assert subject.promised["batch"].high == 50
