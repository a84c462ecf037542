"""Nodes that are alike are worked out once: the file is the one that it would be otherwise."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

import hx
from hx.graph import forms


class Same(nn.Module):
    """Nodes that differ in no more than whose turn an input is."""

    def forward(self, x, y):
        return x + x, x + y, y + x, y + y


class Signs(nn.Module):
    """Numbers that are equal, and not the same."""

    def forward(self, x):
        return 1 / (x * 0.0), 1 / (x * -0.0), x.long() * 1, x.long() * True


class Parts(nn.Module):
    """Sizes that follow from what is in a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.tensor([0, 2]))
        self.register_buffer("second", torch.tensor([1, 1]))

    def forward(self, x):
        few, many = x[:, 1:3], x[:, 0:4]
        picked = x.index_select(1, self.first) * 2, x.index_select(1, self.second) * 2
        return few * 2, many * 2, x.sum(0), x.sum(1), *picked


class Masks(nn.Module):
    """Sizes that only the run knows: another one each time."""

    def forward(self, x):
        return x[x > 0] * 2, x[x > 1] * 2, (x > 0).nonzero() + 1, (x > 1).nonzero() + 1


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(8, eps=eps) for eps in (1e-5, 1e-3, 1e-5))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = norm(layer(x)).reshape(x.shape[0], -1, 8).softmax(-1)
        return x


class Branches(nn.Module):
    """Bodies, whose nodes are like those around them."""

    def forward(self, x):
        def yes(x):
            return (x * 2).relu() + 1

        def no(x):
            return (x * 2).relu() - 1

        return torch.cond(x.sum() > 0, yes, no, (x,)), (x * 2).relu() + 1


CASES = {
    "same": (Same(), (torch.randn(2, 3), torch.randn(2, 3))),
    "signs": (Signs(), (torch.rand(2, 3) + 1,)),
    "parts": (Parts(), (torch.randn(5, 6),)),
    "masks": (Masks(), (torch.randn(8, 9),)),
    "layers": (Layers(), (torch.randn(2, 5, 8),)),
    "branches": (Branches(), (torch.randn(2, 3),)),
}


def exported(folder, model, args, **more) -> bytes:
    hx.export(model, args, folder / "m.onnx", **more)
    return (folder / "m.onnx").read_bytes()


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_file_is_the_same_as_if_each_node_were_worked_out(
    name, dynamic, opset, monkeypatch, tmp_path
):
    model, args = CASES[name]
    sizes = {key: {0: "batch"} for key in ("x", "y")[: len(args)]} if dynamic else None
    written = exported(tmp_path, model, args, dynamic=sizes, opset=opset)
    monkeypatch.setattr(forms, "key_of", lambda *node: None)
    assert exported(tmp_path, model, args, dynamic=sizes, opset=opset) == written


def test_who_is_read_is_not_taken_from_another_node(tmp_path):
    model, args = CASES["same"]
    proto = onnx.load_from_string(exported(tmp_path, model, args))
    read = [list(node.input) for node in proto.graph.node if node.op_type == "Add"]
    assert read == [["x", "x"], ["x", "y"], ["y", "x"], ["y", "y"]]
