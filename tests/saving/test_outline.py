"""Outlines of files for onnx's checker: large weights are inputs of them."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

import hx
from hx.proof import file_proof
from hx.saving import model_file


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.onnx"
    hx.export(nn.Linear(512, 512), torch.randn(2, 512), path, verify=False)
    return path


def test_an_outline_has_the_graph_and_no_large_weights(large):
    outline = model_file.outline(large)
    whole = onnx.load(large)
    assert outline.graph.node == whole.graph.node
    kept = {each.name for each in outline.graph.initializer}
    inputs = {each.name for each in outline.graph.input}
    assert kept | inputs == {w.name for w in whole.graph.initializer} | {"input"}
    assert outline.ByteSize() < 10_000 and file_proof._checked(large) == ""


def test_an_outline_hides_no_mistake(large):
    whole = onnx.load(large)
    whole.graph.node[0].input[0] = "nowhere"
    onnx.save(whole, large)
    assert model_file.outline(large) is not None
    assert "nowhere" in file_proof._checked(large)


def test_weights_of_another_size_than_they_say_have_no_outline(large):
    whole = onnx.load(large)
    weight = max(whole.graph.initializer, key=lambda each: len(each.raw_data))
    weight.raw_data = weight.raw_data[:-4]
    onnx.save(whole, large)
    assert model_file.outline(large) is None
    assert file_proof._checked(large)


def test_weights_beside_the_file_have_no_outline(tmp_path):
    path = tmp_path / "m.onnx"
    layers = [nn.Linear(64, 64) for _ in range(40)]
    hx.export(nn.Sequential(*layers), torch.randn(2, 64), path, verify=False, external_data=True)
    assert model_file.outline(path) is None and file_proof._checked(path) == ""
