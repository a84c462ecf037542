"""Normalizations that go into the weights of the layer before them, and those that must not."""

from __future__ import annotations

import copy

import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import hx


def uneven(model):
    """Statistics and weights of the normalizations as training leaves them."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.3, 3)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model.eval()


def strided(layer):
    with torch.no_grad():
        layer.weight = nn.Parameter(layer.weight.to(memory_format=torch.channels_last))
    return layer


LAYERS = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, bias=False), nn.BatchNorm1d, (4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.BatchNorm2d, (4, 9, 8)),
    "conv3d": (lambda: nn.Conv3d(4, 6, 2), nn.BatchNorm3d, (4, 5, 4, 3)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d, (4, 9, 8)),
    "one channel each": (lambda: nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d, (6, 9, 8)),
    "channels last": (lambda: strided(nn.Conv2d(4, 6, 3)), nn.BatchNorm2d, (4, 9, 8)),
    "reflected": (
        lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d, (4, 9, 8)
    ),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), nn.BatchNorm2d, (4, 5, 4)),
    "transposed in groups": (
        lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d, (4, 5, 4)
    ),
    "linear": (lambda: nn.Linear(4, 6), nn.BatchNorm1d, (4,)),
    "linear without bias": (lambda: nn.Linear(4, 6, bias=False), nn.BatchNorm1d, (4,)),
}  # fmt: skip


def ops(program):
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_normalization_is_in_the_weights(tmp_path, kind, affine):
    layer, norm, sizes = LAYERS[kind]
    made = norm(6, eps=1e-3, affine=affine)
    model = uneven(nn.Sequential(layer(), made))
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(2, *sizes)
    program = hx.export(model, x, tmp_path / "m.onnx", dynamic={"input": {0: "n"}})
    assert program.proof.ok and "BatchNormalization" not in ops(program)
    assert all(torch.equal(before[key], now) for key, now in model.state_dict().items())
    weights = {n for n in program.model.graph.initializers if not n.startswith("const")}
    assert weights == {"0.weight.folded", "0.bias.folded"}
    (node,) = [node for node in program.model.graph if node.metadata_props.get("hx.folded")]
    assert node.metadata_props["hx.folded"] == "1" and node.metadata_props["hx.module"] == "0"
    stored = {t.name: t for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert numpy_helper.to_array(stored["0.weight.folded"]).shape == before["0.weight"].shape


def test_in_double_precision():
    model = uneven(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))).double()
    program = hx.export(model, torch.randn(2, 4).double())
    assert program.proof.ok and ops(program) == ["Gemm"]


class Two(nn.Module):
    """A layer and a normalization; `forward` says what is done with them."""

    def __init__(self, forward):
        super().__init__()
        self.does = forward
        self.conv, self.other = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1)
        self.norm, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.does(self, x)


def read_twice(self, x):
    y = self.conv(x)
    return y + self.norm(y)


def returned_too(self, x):
    y = self.conv(x)
    return y, self.norm(y)


def something_between(self, x):
    return self.norm(self.conv(x).relu())


def norm_first(self, x):
    return self.conv(self.norm(x))


def weights_from_the_input(self, x):
    y = nn.functional.conv2d(x, self.conv.weight * x.mean())
    return self.norm(y)


@pytest.mark.parametrize(
    "forward", [read_twice, returned_too, something_between, norm_first, weights_from_the_input],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_one_that_must_stay_stays(forward):
    model = uneven(Two(forward))
    program = hx.export(model, torch.randn(2, 3, 5, 5), dynamic={"x": {0: "n"}})
    assert program.proof.ok and ops(program).count("BatchNormalization") == 1


def test_a_layer_whose_result_is_asked_for_stays():
    model = uneven(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    program = hx.export(model, torch.randn(2, 3, 5, 5), outputs=["0", "1"])
    assert program.proof.ok and ops(program) == ["Conv", "BatchNormalization"]


def test_a_weight_that_two_read_is_stored_once():
    def two_norms(self, x):
        return self.norm(self.conv(x)) + self.second(self.conv(x.sin()))

    program = hx.export(uneven(Two(two_norms)), torch.randn(2, 3, 5, 5))
    assert program.proof.ok and ops(program).count("BatchNormalization") == 2
    weights = [v for v in program.model.graph.initializers.values() if v.shape.rank() == 4]
    assert [weight.name for weight in weights] == ["conv.weight"]

    def with_and_without(self, x):
        return self.norm(self.conv(x)) + self.conv(x.sin())

    program = hx.export(uneven(Two(with_and_without)), torch.randn(2, 3, 5, 5))
    assert program.proof.ok and ops(program).count("BatchNormalization") == 1

    def the_same_two(self, x):
        return self.norm(self.conv(x)) + self.norm(self.conv(x.sin()))

    program = hx.export(uneven(Two(the_same_two)), torch.randn(2, 3, 5, 5))
    assert program.proof.ok and "BatchNormalization" not in ops(program)
    assert sorted(program.model.graph.initializers) == ["conv.bias.folded", "conv.weight.folded"]


@pytest.mark.parametrize("variance", [-1.0, float("inf"), float("nan")])
def test_statistics_that_spoil_a_channel_spoil_it_as_they_did(variance):
    model = uneven(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    model[1].running_var[2] = variance
    program = hx.export(model, torch.randn(2, 3, 5, 5))
    assert program.proof.ok


def test_halves_keep_their_digits():
    model = uneven(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))).half()
    program = hx.export(model, torch.randn(2, 3, 5, 5).half())
    assert program.proof.ok and "BatchNormalization" in ops(program)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
    )  # fmt: skip


@pytest.mark.parametrize("external", [False, True])
def test_weights_in_a_file_are_folded_as_they_are_streamed(tmp_path, external):
    model = uneven(network())
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    with torch.device("meta"):
        empty = network().eval()
    x, axes = torch.randn(2, 3, 9, 9), {"input": {0: "n"}}
    options = {"dynamic": axes, "external_data": external, "verify": False}
    hx.export(empty, x, tmp_path / "a.onnx", weights=tmp_path / "w.safetensors", **options)
    hx.export(model, x, tmp_path / "b.onnx", **options)
    one, other = (onnx.load(tmp_path / name) for name in ("a.onnx", "b.onnx"))
    assert [n.op_type for n in one.graph.node] == ["Conv", "Relu"] * 2
    for graph in (one.graph, other.graph):
        graph.initializer.sort(key=lambda tensor: tensor.name)
        for tensor in graph.initializer:
            tensor.ClearField("external_data")
    assert list(one.graph.initializer) == list(other.graph.initializer)
