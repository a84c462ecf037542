"""`hx diff`: what differs between two files, by module."""

from __future__ import annotations

import onnx
import pytest

MODEL = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, stride=stride)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.conv(x))


class Net(nn.Module):
    def __init__(self, stride=1, squash=False, wide=2):
        super().__init__()
        self.body, self.head, self.squash = Block(stride), nn.Linear(4, wide), squash

    def forward(self, x):
        y = self.body(x).mean((2, 3))
        if self.squash:
            y = torch.tanh(y)  # squashed
        return self.head(y).reshape(1, -1)


def made(**options):
    torch.manual_seed(0)
    return Net(**options), (torch.randn(1, 3, 8, 8),)


def plain(): return made()
def strided(): return made(stride=2)
def squashed(): return made(squash=True)
def wide(): return made(wide=3)
def trained():
    model, args = made()
    with torch.no_grad():
        model.head.bias += 0.5
    return model, args


class Asking(nn.Module):
    def __init__(self, by, axis, kept):
        super().__init__()
        self.by, self.axis, self.kept = by, axis, kept

    def forward(self, x):
        if x.sum() > 0:
            x = (x * self.by).softmax(self.axis)
        total = x[0] * 0
        for row in x:
            total = total * self.kept + row
        return total


def asking(by=2.0, axis=0, kept=0.5):
    return Asking(by, axis, kept), (torch.randn(5, 4),)


def by_three(): return asking(by=3.0)
def across(): return asking(axis=1)
def kept_less(): return asking(kept=0.25)
"""


@pytest.fixture
def files(hx, folder):
    """`files("plain", "squashed")`: exports them, and tells of their differences."""
    (folder / "net.py").write_text(MODEL)

    def compared(a, b, *words, **options):
        for name in {a, b}:
            more = options.get(name, [])
            assert hx("export", f"net.py:{name}", "-o", f"{name}.onnx", "-q", *more).code == 0
        return hx("diff", f"{a}.onnx", f"{b}.onnx", *words)

    return compared


def test_two_exports_of_one_model_are_the_same(files, hx):
    done = files("plain", "plain", "--exit-code")
    assert done.code == 0 and done.out == "" and done.err == "the same\n"
    assert files("plain", "plain", "--json").json["same"] is True


def test_a_node_that_came_is_named_with_its_line(files):
    done = files("plain", "squashed")
    assert done.code == 0
    assert "the model itself  +1" in done.out and "+ Tanh" in done.out
    assert (
        f"net.py:{MODEL.splitlines().index('            y = torch.tanh(y)  # squashed') + 1}"
        in (done.out)
    )
    assert "~ Gemm head/Gemm input 0: ReduceMean of the model → Tanh of the model" in done.out
    assert "1 added, 1 changed" in done.err and "weights" not in done.out
    assert "1 removed" in files("squashed", "plain").err


def test_attributes_weights_and_shapes_that_changed(files):
    done = files("plain", "strided")
    assert "body.conv  ~1" in done.out and "strides: [1, 1] → [2, 2]" in done.out
    assert "+" not in done.out and "weights" not in done.out
    done = files("plain", "trained")
    assert "~ head.bias float32[2], largest difference 5.0e-01" in done.out
    assert "head.weight" not in done.out and done.err == "1 weight changed\n"
    done = files("plain", "wide")
    assert "output output float32[1,2] → float32[1,3]" in done.out
    assert "~ head.weight float32[2,4] → float32[3,4]" in done.out


def test_as_data_and_by_exit_code(files):
    done = files("plain", "squashed", "--json", "--exit-code")
    assert done.code == 1 and done.json["schema"] == 1 and done.json["same"] is False
    kinds = [(c["kind"], c["op"]) for m in done.json["modules"] for c in m["changes"]]
    assert kinds == [("added", "Tanh"), ("changed", "Gemm")]
    done = files("plain", "trained", "--json")
    assert [w["name"] for w in done.json["weights"]] == ["head.bias"]


def test_opsets_and_dims(files, hx):
    hx("export", "hx.demo:model", "-o", "a.onnx", "-q")
    hx("export", "hx.demo:model", "-o", "b.onnx", "-q", "--opset", "19", "-d", "image:0=batch")
    done = hx("diff", "a.onnx", "b.onnx")
    assert "~ opset ai.onnx 20 → 19" in done.out
    assert "~ input image float32[2,3,16,16] → float32[batch,3,16,16]" in done.out


@pytest.mark.filterwarnings("ignore:You are using the legacy TorchScript-based ONNX export")
def test_files_of_others_are_compared_too(hx, folder):
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    torch.onnx.export(model, (torch.randn(2, 4),), "a.onnx", dynamo=False)
    torch.onnx.export(model[:1], (torch.randn(2, 4),), "b.onnx", dynamo=False)
    done = hx("diff", "a.onnx", "b.onnx")
    assert done.code == 0 and "- Relu" in done.out


def test_what_is_no_file_is_one_message(hx, folder):
    hx("export", "hx.demo:model", "-o", "a.onnx", "-q")
    (folder / "bad.onnx").write_bytes(b"not onnx at all")
    for name, told in (
        ("none.onnx", "there is no file none.onnx"),
        ("bad.onnx", "not an ONNX file"),
    ):
        done = hx("diff", "a.onnx", name)
        assert done.code == 2 and done.err.startswith("error[") and told in done.err


@pytest.mark.parametrize(
    ("offset", "told"),
    [("-5", "must be non-negative, got -5"), ("abc", "abc"), ("700", "smaller than requested")],
)
def test_the_file_that_is_damaged_is_named_with_what_is_wrong(hx, folder, offset, told):
    def write(name, offset):
        weight = onnx.TensorProto(
            name="w", data_type=1, dims=[100], data_location=onnx.TensorProto.EXTERNAL
        )
        for key, value in (("location", "w.bin"), ("offset", offset), ("length", "400")):
            weight.external_data.add(key=key, value=value)
        x, y = (onnx.helper.make_tensor_value_info(n, 1, [100]) for n in "xy")
        add = onnx.helper.make_node("Add", ["x", "w"], ["y"])
        graph = onnx.helper.make_graph([add], "g", [x], [y], [weight])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
        (folder / name).write_bytes(model.SerializeToString())

    (folder / "w.bin").write_bytes(bytes(800))
    write("fine.onnx", "0")
    write("bad.onnx", offset)
    assert hx("diff", "fine.onnx", "fine.onnx").code == 0
    for pair in (("bad.onnx", "fine.onnx"), ("fine.onnx", "bad.onnx")):
        done = hx("diff", *pair)
        assert done.code == 2 and "]: bad.onnx is damaged" in done.err
        assert told in done.err and "lambda" not in done.err


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("by_three", "Mul Mul input 1: 2.0 → 3.0"),
        ("across", "Softmax Softmax axis: 0 → 1"),
        ("kept_less", "input 1: 0.5 → 0.25"),
        ("asking", ""),
    ],
)
def test_what_branches_and_loops_run_is_compared(files, other, told):
    named = ["--dynamic", "x:0=n"]
    done = files("asking", other, "--exit-code", **{"asking": named, other: named})
    assert done.code == bool(told) and told in done.out
