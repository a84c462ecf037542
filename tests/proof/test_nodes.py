"""Every node of a file beside what the model had there; memory that compiled code wrote to."""

from __future__ import annotations

import ctypes
import dataclasses

import onnx
import pytest
import torch
from torch import nn

import hx
from hx.contributions import ReferenceKernel
from hx.proof import file_proof
from hx.proof.differences import nodes
from hx.saving import save


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        return torch.softmax(self.second(self.first(x).tanh()), -1)


def test_every_node_is_compared_and_named():
    program = hx.export(Small(), torch.randn(2, 3), check_every_node=True)
    rows = program.report.node_table.rows
    assert [row.op for row in rows] == ["Gemm", "Tanh", "Gemm", "Softmax"]
    assert all(row.compared and not row.problem and row.max_rel < row.allowed for row in rows)
    assert [row.module for row in rows] == ["first", "", "second", ""]
    assert rows[0].shape == [2, 4] and rows[0].dtype == "float32"
    assert all(row.source.startswith(f"{__file__}:") for row in rows)
    assert program.report.to_dict()["node_checks"][0]["name"] == rows[0].name


def test_what_does_not_fit_into_memory_is_done_in_turns(monkeypatch):
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(6)])
    held = []
    original = nodes.Kept.__init__

    def noted(self, *args):
        original(self, *args)
        held.append(self)

    monkeypatch.setattr(nodes.Kept, "__init__", noted)
    program = hx.export(model, torch.randn(4, 4))
    subject = program._subject
    case = file_proof.Case("recorded", subject.recipe.inputs, subject.results)
    with save.staged(program.model, None) as staged:
        found = nodes.check_nodes(subject, staged.path, case, budget=64)
    assert len(found.rows) == len(found.compared) == 6
    assert len(held) == 7 and max(len(kept.pairs) for kept in held) == 1


def test_a_model_whose_values_change_in_place():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y[:, 0] = 1
            y += x
            return y.relu_()

    program = hx.export(InPlace(), torch.randn(2, 3), check_every_node=True)
    table = program.report.node_table
    assert table.first_off is None and not table.unseen
    assert table.rows[-1].compared


def with_kernel(run, *converters):
    """The installed packs, the first with one more reference kernel."""
    [first, *others] = hx.Registry.installed().packs
    kernel = ReferenceKernel("com.acme", "Soft", run, "acme")
    packs = hx.Registry([dataclasses.replace(first, kernels=(kernel,)), *others])
    for one in converters:
        packs.add(one)
    return packs


def test_operators_of_packs_run_in_their_reference_kernels():
    @hx.converter("torch.nn.functional.softsign", domain="com.acme")
    def softsign(op, input):
        return op("com.acme", "Soft", input)

    packs = with_kernel(lambda x: x / (1 + abs(x)), softsign)
    model = nn.Sequential(nn.Linear(3, 3), nn.Softsign(), nn.Tanh())
    program = hx.export(model, torch.randn(2, 3), packs=packs, check_every_node=True)
    rows = program.report.node_table.rows
    assert [row.op for row in rows] == ["Gemm", "com.acme::Soft", "Tanh"]
    assert all(row.compared and not row.problem for row in rows)
    assert "reference kernels (com.acme::Soft)" in program.proof.runtime

    wrong = with_kernel(lambda x: x / (2 + abs(x)), softsign)
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, torch.randn(2, 3), packs=wrong)
    assert "first off: com.acme::Soft of torch.nn.functional.softsign" in str(caught.value)


def test_kernels_are_not_asked_for_graphs_without_their_operators():
    packs = with_kernel(lambda x: x)
    assert "onnxruntime" in hx.export(Small(), torch.randn(2, 3), packs=packs).proof.runtime


def test_memory_that_was_written_to_out_of_sight_is_told(tmp_path, line_of):
    def forward(x):
        y = x + 1  # made
        with torch._C.DisableTorchFunction():  # as compiled code asks for it
            address = y.data_ptr()
        ctypes.memset(address, 0, 8)
        return y * 2  # read

    with pytest.raises(hx.VerificationError, match="unseen: ") as caught:
        hx.export(forward, torch.randn(2, 3), tmp_path / "m.onnx")
    message = str(caught.value)
    assert f"{__file__}:{line_of(forward, '# made')}" in message
    assert f"{__file__}:{line_of(forward, '# read')}" in message
    assert not list(tmp_path.iterdir())


def test_a_rejected_file_can_be_kept(tmp_path):
    @hx.converter("torch.tanh")
    def wrong(op, input):
        return op.Sin(input)

    packs = hx.Registry.installed()
    packs.add(wrong)
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(
            torch.tanh, torch.randn(3), tmp_path / "m.onnx", packs=packs,
            keep_rejected=tmp_path / "kept.onnx",
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["kept.onnx"]
    assert str(tmp_path / "kept.onnx") in str(caught.value)
    assert [node.op_type for node in onnx.load(tmp_path / "kept.onnx").graph.node] == ["Sin"]
