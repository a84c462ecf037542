"""Modules of torch.nn whose eval mode does more than their parts say."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import hx
from hx.runtime import Session


def run(path, **tensors):
    return Session(path).run(tensors)


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(8)])
def test_an_encoder_leaves_nothing_at_padded_places(tmp_path, norm):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, norm=norm).eval()
    if norm is not None:
        nn.init.normal_(norm.bias)
    x, path = torch.randn(3, 5, 8), tmp_path / "m.onnx"
    last = torch.arange(5) >= torch.tensor([[5], [3], [2]])
    hx.export(model, (x,), path, kwargs={"src_key_padding_mask": last},
              dynamic={"src": {0: "n", 1: "s"}, "src_key_padding_mask": {0: "n", 1: "s"}})  # fmt: skip
    first = last.flip(1)
    with torch.no_grad():
        for mask in (last, first, last[[0, 0, 2]]):
            (found,) = run(path, src=x, src_key_padding_mask=mask)
            torch.testing.assert_close(found, model(x, src_key_padding_mask=mask))


class Packed(nn.Module):
    """Padded in, packed through a recurrent layer, padded out: what taggers and encoders do."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(3, 4, batch_first=True, **options)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, state = self.layer(packed)
        return *pad_packed_sequence(y, batch_first=True, padding_value=-1.0), state


@pytest.mark.parametrize(
    "kind, options",
    [
        (nn.LSTM, {}),
        (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
        (nn.GRU, {"bidirectional": True, "bias": False}),
        (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}),
    ],
)
def test_sequences_of_different_lengths(tmp_path, kind, options):
    model, path = Packed(kind, **options).eval(), tmp_path / "m.onnx"
    hx.export(model, (torch.randn(3, 5, 3), torch.tensor([3, 5, 2])), path,
              dynamic={"x": {0: "n", 1: "s"}, "lengths": {0: "n"}})  # fmt: skip
    with torch.no_grad():
        for lengths in ([2, 6, 6, 1], [4]):  # shorter than the padding, too
            x, given = torch.randn(len(lengths), 7, 3), torch.tensor(lengths)
            y, kept, state = model(x, given)
            expected = [y, kept, *(state if isinstance(state, tuple) else [state])]
            for found, real in zip(run(path, x=x, lengths=given), expected, strict=True):
                torch.testing.assert_close(found, real, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "read",
    [lambda t: t.cpu(), lambda t: t.cpu().numpy(), lambda t: t.data.cpu().numpy(), torch.Tensor.tolist],
    ids=["cpu", "numpy", "data", "tolist"],
)  # fmt: skip
def test_lengths_as_models_read_them(tmp_path, read):
    """By way of numpy or of a list: however many there are."""
    layer, path = nn.GRU(3, 4, batch_first=True).eval(), tmp_path / "m.onnx"

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, read(lengths), batch_first=True)
            return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]

    hx.export(Encoder(), (torch.randn(3, 5, 3), torch.tensor([5, 3, 2])), path,
              dynamic={"x": {0: "n", 1: "s"}, "lengths": {0: "n"}})  # fmt: skip
    for lengths in ([7, 7, 3, 1], [4]):
        x, given = torch.randn(len(lengths), 7, 3), torch.tensor(lengths)
        (found,) = run(path, x=x, lengths=given)
        torch.testing.assert_close(found, Encoder()(x, given).detach(), rtol=1e-5, atol=1e-5)


def test_a_packed_output_longer_than_its_longest_sequence(tmp_path):
    def model(x, lengths):
        packed = pack_padded_sequence(x, lengths)
        return pad_packed_sequence(packed, total_length=6)[0]

    path = tmp_path / "m.onnx"
    hx.export(model, (torch.randn(5, 2, 3), torch.tensor([4, 3])), path)
    x, lengths = torch.randn(5, 2, 3), torch.tensor([5, 1])
    (found,) = run(path, x=x, lengths=lengths)
    torch.testing.assert_close(found, model(x, lengths))


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2, "bias": False}])
def test_an_lstm_with_a_projection(tmp_path, options):
    model, path = nn.LSTM(3, 4, proj_size=2, **options).eval(), tmp_path / "m.onnx"
    hx.export(model, (torch.randn(5, 2, 3),), path, dynamic={"input": {0: "s", 1: "n"}})
    with torch.no_grad():
        x = torch.randn(3, 4, 3)
        y, (h, c) = model(x)
        for found, real in zip(run(path, input=x), [y, h, c], strict=True):
            torch.testing.assert_close(found, real, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is deprecated", "ignore::UserWarning:torch.ao"
)
@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
def test_a_network_trained_for_quantization(tmp_path, backend):
    quantization = torch.ao.quantization
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).train()
    model.qconfig = quantization.get_default_qat_qconfig(backend)
    quantization.prepare_qat(model, inplace=True)
    for _ in range(3):
        model(torch.randn(2, 3, 8, 8))
    model.eval().apply(quantization.disable_observer)
    path = tmp_path / "m.onnx"
    program = hx.export(model, (torch.randn(2, 3, 8, 8),), path, dynamic={"input": {0: "n"}})
    kinds = [node.op_type for node in program.model.graph]
    assert "Round" not in kinds and kinds.count("Conv") == 1
    assert kinds.count("DequantizeLinear") == kinds.count("QuantizeLinear") + 1 > 1
    stored = {
        str(v.dtype) for v in program.model.graph.initializers.values() if v.shape.rank() == 4
    }
    assert stored == {"INT8"}
    with torch.no_grad():
        x = torch.randn(5, 3, 8, 8)
        (found,) = run(path, input=x)
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)


class Quantized(nn.Module):
    """What `convert_pt2e` makes of a convolution and a linear layer."""

    def __init__(self):
        super().__init__()
        import torch.ao.quantization.fx._decomposed  # which defines the operators

        self.ops = torch.ops.quantized_decomposed
        self.bias = nn.Parameter(torch.randn(4))
        for name, shape in (("kernel", (4, 3, 3, 3)), ("weight", (5, 4))):
            weight = torch.randn(shape)
            scale = weight.flatten(1).abs().amax(1) / 127
            zero = torch.zeros(len(scale), dtype=torch.int64)
            stored = self.ops.quantize_per_channel(weight, scale, zero, 0, -127, 127, torch.int8)
            self.register_buffer(name, stored)
            self.register_buffer(f"{name}_scale", scale)
            self.register_buffer(f"{name}_zero", zero)

    def rounded(self, x, *given):
        given = (*given, 0, 255, torch.uint8)
        return self.ops.dequantize_per_tensor(self.ops.quantize_per_tensor(x, *given), *given)

    def whole(self, name):
        given = (getattr(self, f"{name}_{part}") for part in ("scale", "zero"))
        stored = getattr(self, name)
        return self.ops.dequantize_per_channel(stored, *given, 0, -127, 127, torch.int8)

    def forward(self, x):
        x = nn.functional.conv2d(self.rounded(x, 0.03, 120), self.whole("kernel"), self.bias)
        x = self.rounded(x.relu().mean((2, 3)), torch.tensor(0.02), torch.tensor(3))
        return nn.functional.linear(x, self.whole("weight"))


@pytest.mark.parametrize("opset", [13, 20])
def test_a_network_that_was_quantized_after_its_export(opset):
    model = Quantized()
    program = hx.export(model, torch.randn(2, 3, 8, 8), opset=opset, dynamic={"x": {0: "n"}})
    assert program.proof.ok
    kinds = [node.op_type for node in program.model.graph]
    assert kinds.count("QuantizeLinear") == 2 and kinds.count("DequantizeLinear") == 4
    stored = {name: str(v.dtype) for name, v in program.model.graph.initializers.items()}
    assert stored["kernel"] == stored["weight"] == "INT8"


def test_a_module_that_quantizes_by_channel(tmp_path):
    quantization = torch.ao.quantization
    model = quantization.FakeQuantize(
        quantization.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
        dtype=torch.qint8, qscheme=torch.per_channel_symmetric, ch_axis=1,
    )  # fmt: skip
    model(torch.randn(4, 3))
    model.eval().apply(quantization.disable_observer)
    path, x = tmp_path / "m.onnx", torch.randn(6, 3)
    program = hx.export(model, (x,), path)
    assert [n.op_type for n in program.model.graph] == ["QuantizeLinear", "DequantizeLinear"]
    torch.testing.assert_close(run(path, X=x)[0], model(x))


def test_a_norm_in_doubles_keeps_its_epsilon(tmp_path):
    model, path = nn.RMSNorm((5,), eps=0.1).double().eval(), tmp_path / "m.onnx"
    x = torch.randn(4, 5).double()
    hx.export(model, (x,), path)
    with torch.no_grad():
        torch.testing.assert_close(run(path, x=x)[0], model(x), rtol=1e-12, atol=1e-12)
