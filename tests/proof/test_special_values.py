"""NaN, infinities and equal elements: what differs there is told, and refuses no file."""

from __future__ import annotations

import pytest
import torch
from called import Plain
from tests.shared.proof_cases import names_of, with_converter
from torch import nn

import hx
from hx.findings import CHECKED
from hx.report.summary import lines, outcome


def told(program, word):
    return [each for each in program.report.findings if word in each.text]


def largest(x):
    return nn.functional.max_pool1d(x, 3, 1, 1)


@pytest.mark.parametrize("function", [largest, lambda x: x.topk(2).values])
def test_an_operator_that_passes_nan_by_is_told_with_its_line(function):
    program = hx.export(Plain(function), torch.randn(3, 8), dynamic={"xs_0": {0: "n"}})
    (finding,) = [each for each in told(program, "onnxruntime") if each.text.startswith("on NaN")]
    assert finding.level == CHECKED and finding.where.file.endswith("test_special_values.py")
    call, runtime = "torch.nn.functional.max_pool1d gives other", "onnxruntime's TopK computes"
    assert call in finding.text or runtime in finding.text
    assert outcome(program.report) == ("ok", False)


def test_values_that_a_file_takes_as_the_model_does_are_cases():
    program = hx.export(Plain(lambda x: (x * 2).exp()), torch.randn(3, 8))
    assert {"NaN values", "infinite values", "negative infinite values"} <= set(names_of(program))
    assert not program.report.findings


@hx.converter("torch.exp", cases=[])
def finite_exp(op, input):
    return op.Exp(op.Clip(input, -50.0, 50.0))


def test_a_fault_of_the_file_is_told():
    packs = with_converter(finite_exp)
    program = hx.export(Plain(lambda x: (x.log() + 1).exp()), torch.rand(3, 8) + 1, packs=packs)
    [finding] = told(program, "torch.exp gives other results")
    assert finding.level == CHECKED and finding.where.file.endswith("test_special_values.py")
    assert "infinite" in finding.text


def test_operators_of_heavy_models_are_known_to_pass_nan_by():
    class Heavy(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(16, 64, 7), nn.MaxPool2d(2)

        def forward(self, x):
            return self.pool(self.conv(x))

    program = hx.export(Heavy(), torch.randn(2, 16, 64, 64), dynamic={"x": {0: "batch"}})
    assert told(program, "on NaN inputs, torch.nn.functional.max_pool2d gives other results")
    assert not {"NaN values", "NaN and infinite values"} & set(names_of(program))


class Peaks(nn.Module):
    def forward(self, x):
        peak = nn.functional.max_pool2d(x, 3, 1, 1) == x
        value, at = (x.sigmoid() * peak).flatten(1).topk(4)
        return value, (at // x.shape[-1]).float().sum(1)


def test_ties_are_told_with_their_line():
    program = hx.export(Peaks(), torch.randn(3, 3, 12, 10), dynamic={"x": {2: "h", 3: "w"}})
    [finding] = told(program, "ties decide at TopK of torch.topk")
    assert finding.level == CHECKED and finding.where.file.endswith("test_special_values.py")
    assert "PyTorch leaves open which of equal elements it takes" in finding.text


def test_equal_elements_are_tried_where_a_model_orders_them():
    program = hx.export(Plain(lambda x: x.topk(3).indices), torch.randn(3, 40))
    assert told(program, "ties decide at TopK of torch.topk")
    values = hx.export(Plain(lambda x: x.topk(3).values), torch.randn(3, 40))
    assert {"whole values", "zero values"} <= set(names_of(values)) and not told(values, "ties")


def test_the_summary_has_one_line_of_it():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1), nn.MaxPool2d(2))
    report = hx.export(net, torch.randn(2, 3, 12, 12)).report
    shown = [text for name, text in lines(report, None) if "onnxruntime" in text]
    assert len(shown) == 1 and "\n" not in shown[0] and outcome(report) == ("ok", False)


def test_the_summary_shows_it_beside_other_findings():
    def pooled(x):
        return largest(x) if x.shape[0] != 77 else x[0]

    report = hx.export(Plain(pooled), torch.randn(3, 8), dynamic={"xs_0": {0: "n"}}).report
    assert sum(each.level == CHECKED for each in report.findings) > 1
    [shown] = [text for name, text in lines(report, None) if name == CHECKED]
    first, rest = shown.splitlines()
    assert "on NaN inputs" in first and rest.endswith("(--verbose lists them)")


class Faded(nn.Module):
    def forward(self, x):
        total = x[0] * 0
        for row in x:
            total = total * 0.5 + row
        return total


class Halved(nn.Module):
    def forward(self, x):
        while x.abs().max() > 1:
            x = x / 2
        return x


def test_a_loop_whose_end_sizes_decide_takes_nan():
    program = hx.export(Faded(), torch.randn(4, 3), dynamic={"x": {0: "n"}})
    assert any(node.op_type == "Loop" for node in program.model.graph)
    assert "NaN values" in names_of(program)


def test_a_loop_that_floats_end_takes_none():
    program = hx.export(Halved(), torch.randn(4, 3) * 9)
    assert any(node.op_type == "Loop" for node in program.model.graph)
    assert not any("NaN" in name for name in names_of(program))
