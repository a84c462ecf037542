"""Networks of quantized tensors, converted by PyTorch's own tools: exported as what they stand for."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

import hx

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        "fbgemm" not in torch.backends.quantized.supported_engines,
        reason="this PyTorch has no quantized kernels for the processor",
    ),
]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.other = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.head = nn.Linear(8, 5)
        self.norm.running_mean.normal_(0, 0.2)
        self.norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = x + torch.relu(self.other(x))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.cat([x, nn.functional.hardtanh(x, 0.0, 2.0)], 2)
        return self.head(x.mean((2, 3)).flatten(1))


def prepared(model, x):
    mapping = quantization.get_default_qconfig_mapping("x86")
    observed = quantize_fx.prepare_fx(model.eval(), mapping, (x,))
    for _ in range(4):
        observed(torch.randn_like(x))
    return observed


def kinds(program):
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("convert", [quantize_fx.convert_fx, quantize_fx.convert_to_reference_fx])
def test_a_network_that_was_traced(convert, opset):
    x = torch.randn(2, 3, 12, 12)
    model = convert(copy.deepcopy(prepared(Net(), x)))
    program = hx.export(model, x, opset=opset, dynamic=[{0: "n"}])
    assert program.proof.ok and not program.report.escapes
    found = kinds(program)
    assert found.count("Conv") == 2 and found.count("QuantizeLinear") >= 4
    if convert is quantize_fx.convert_fx:  # the other one quantizes its weights as it runs
        weights = [v for v in program.model.graph.initializers.values() if v.shape.rank() > 1]
        assert {str(v.dtype) for v in weights} == {"INT8"} and len(weights) == 3


def test_a_network_between_stubs():
    class Stubs(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.net = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 1))
            self.sum = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x):
            x = self.net(self.quant(x))
            return self.dequant(self.sum.add_relu(x, self.sum.mul(x, x)))

    model = Stubs().eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(model, inplace=True)
    for _ in range(4):
        model(torch.randn(2, 3, 9))
    quantization.convert(model, inplace=True)
    program = hx.export(model, torch.randn(2, 3, 9), dynamic=[{0: "n"}])
    assert program.proof.ok and not program.report.escapes


LAYERS = {
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), (4, 5)),
    "ELU": (lambda: nn.ELU(0.7), (4, 5)),
    "Hardswish": (nn.Hardswish, (4, 5)),
    "Sigmoid": (nn.Sigmoid, (4, 5)),
    "ReLU6": (nn.ReLU6, (4, 5)),
    "Hardtanh": (lambda: nn.Hardtanh(-0.5, 0.7), (4, 5)),
    "LayerNorm": (lambda: nn.LayerNorm(5), (4, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 5, 3)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), (4, 5, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (4, 5, 3)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (4, 5, 3)),
    "Conv3d": (lambda: nn.Sequential(nn.Conv3d(4, 3, 2), nn.ReLU()), (4, 3, 4, 3)),
    "padded by reflection": (
        lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), (4, 5, 3)
    ),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), (4, 6, 4)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(2), (4, 6, 4)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (4, 6, 4)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (4, 6, 4)),
    "Linear": (lambda: nn.Linear(5, 3), (4, 5)),
    "Linear, LeakyReLU": (lambda: nn.Sequential(nn.Linear(5, 3), nn.LeakyReLU(0.1)), (5,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_quantized_tensors(name, monkeypatch):
    make, shape = LAYERS[name]
    model = nn.Sequential(quantization.QuantStub(), make(), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    if isinstance(model[1], nn.ConvTranspose2d):
        # Its kernel has one scale for all channels, and the others of x86 compute something else.
        monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")
        weights = quantization.default_weight_observer
        model.qconfig = quantization.QConfig(model.qconfig.activation, weights)
    quantization.prepare(model, inplace=True)
    for _ in range(4):
        model(torch.randn(3, *shape))
    quantization.convert(model, inplace=True)
    program = hx.export(model, torch.randn(3, *shape), dynamic=[{0: "n"}])
    assert program.proof.ok and not program.report.escapes


@pytest.mark.parametrize("engine", ["fbgemm", "qnnpack"])
def test_linear_layers_that_quantize_what_comes(engine, monkeypatch):
    """QNNPACK takes all steps, where the others leave half of them."""
    if engine not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this PyTorch has no {engine}")
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    model = quantization.quantize_dynamic(model, {nn.Linear})
    program = hx.export(model, torch.randn(3, 8), dynamic=[{0: "n"}])
    assert program.proof.ok and not program.report.escapes
    weights = [v for v in program.model.graph.initializers.values() if v.shape.rank() == 2]
    assert {str(v.dtype) for v in weights} == {"INT8"}


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_large"])
def test_models_of_torchvision(torchvision, name):
    make = getattr(torchvision.models.quantization, name)
    model = make(weights=None, quantize=True).eval()
    program = hx.export(model, torch.rand(2, 3, 64, 64), dynamic=[{0: "n"}])
    assert program.proof.ok and not program.report.escapes


def test_steps_that_depend_on_the_data_are_refused():
    def model(x):
        return torch.quantize_per_tensor(x, x.abs().amax() / 127, 0, torch.qint8).dequantize()

    with pytest.raises(hx.HxError, match="depend on the data"):
        hx.export(model, torch.randn(3, 8))


def test_what_has_no_eight_bits_is_refused():
    def model(x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint32).dequantize()

    with pytest.raises(hx.HxError, match="qint32"):
        hx.export(model, torch.randn(3, 8))


def test_quantized_tensors_do_not_leave_or_enter_a_file():
    def given(x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)

    x = torch.randn(3, 8)
    with pytest.raises(hx.HxError, match="output is a quantized tensor"):
        hx.export(given, x, verify=False)
    with pytest.raises(hx.HxError, match="input q is a quantized tensor"):
        hx.export(lambda q: q.dequantize(), given(x), verify=False)
