"""The small networks that everybody tries first, at dynamic sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx


def kinds(program):
    return [node.op_type for node in program.model.graph]


class Branch(nn.Module):
    def __init__(self, form="module"):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3, padding=1)
        self.conv2 = nn.Conv2d(2, 2, 3, padding=1)
        self.conv_right = nn.Conv2d(2, 2, 1)
        self.relu = nn.ReLU()
        self.form = form

    def forward(self, x):
        x = self.conv1(x)
        if self.form == "module":
            return self.conv2(self.relu(x)) + self.conv_right(x)
        right = self.conv_right(x)
        if self.form == "functional":
            x = self.conv2(F.relu(x))
            x += right
            return 1 + x
        if self.form == "torch":
            return self.conv2(torch.relu(x)).add(right)
        x = self.conv2(x.relu_())
        return x.add_(right)


def test_two_convolutions_in_a_row():
    model = nn.Sequential(nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3))
    program = hx.export(model, torch.randn(1, 1, 5, 5))
    assert kinds(program) == ["Conv", "Conv"]
    assert sorted(program.model.graph.initializers) == ["0.bias", "0.weight", "1.bias", "1.weight"]


@pytest.mark.parametrize("form", ["module", "functional", "torch", "in place"])
def test_a_branch_in_every_way_to_write_it(form):
    program = hx.export(Branch(form), torch.randn(2, 1, 5, 5), dynamic={"x": {0: "batch"}})
    assert kinds(program).count("Conv") == 3
    assert kinds(program).count("Relu") == 1
    assert program.proof.ok and len(program.proof.cases) >= 5


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 10, 2, stride=2), nn.Linear(160, 5)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).view(-1))


def test_view_of_everything():
    program = hx.export(Flat(), torch.randn(1, 3, 8, 8))
    assert program.model.graph.outputs[0].shape == [5]


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d((4, 4))
        self.linear = nn.Linear(64, 5)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv(x)))
        return self.linear(x.view(x.shape[0], -1))


@pytest.mark.parametrize("size", [10, 13])
def test_adaptive_pooling_to_a_view(size):
    program = hx.export(Pooled(), torch.randn(2, 3, size, size), dynamic={"x": {0: "batch"}})
    assert program.proof.ok
    assert str(program.model.graph.outputs[0].shape[0]) == "batch"


def test_adaptive_pooling_of_an_image_of_any_size():
    program = hx.export(
        Pooled(), torch.randn(2, 3, 11, 13), dynamic={"x": {0: "batch", 2: "height", 3: "width"}}
    )
    assert {case.name for case in program.proof.cases} >= {"recorded", "fresh", "batch=1"}


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.relu, self.relu6 = nn.ReLU(), nn.ReLU6()

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        c = self.relu(b)
        return self.relu6(c), (a, (b, c))


def test_nested_tuples_of_intermediates():
    program = hx.export(Nested(), torch.randn(3, 4), dynamic={"x": [0]})
    names = [value.name for value in program.model.graph.outputs]
    assert names == ["output_0", "output_1_0", "output_1_1_0", "output_1_1_1"]


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x, h):
        out = []
        for step in x.unbind(1):
            h = self.cell(step, h)
            out.append(h)
        return torch.stack(out, 1), h


def test_a_loop_over_time_steps():
    program = hx.export(
        Steps(), (torch.randn(2, 5, 3), torch.zeros(2, 4)), dynamic={"x": [0], "h": {0: "x_0"}}
    )
    assert program.proof.ok


class Attention(nn.Module):
    def forward(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def test_attention_with_einsum():
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 6, 4)
    axes = {0: "batch", 2: "keys"}
    program = hx.export(
        Attention(),
        (q, k, k.clone()),
        dynamic={"q": {0: "batch", 2: "queries"}, "k": axes, "v": axes},
    )
    assert kinds(program).count("MatMul") == 2 and "Einsum" not in kinds(program)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_layers(kind, options, batch_first):
    model = kind(3, 4, batch_first=batch_first, **options)
    program = hx.export(model, torch.randn(2, 5, 3), dynamic={"input": {0: "a", 1: "b"}})
    assert kind.__name__ in kinds(program)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(12, 2, 1)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(F.max_pool2d(a, 2)))
        wide = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(torch.cat([a, F.pad(wide, [0, 0, 0, 0])], 1)), self.up(b)


def test_a_unet_of_any_image_size():
    program = hx.export(
        UNet(), torch.randn(1, 3, 9, 12), dynamic={"x": {0: "batch", 2: "height", 3: "width"}}
    )
    assert [str(n) for n in program.model.graph.outputs[0].shape][2:] == ["height", "width"]


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
    program = hx.export(
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 5, 16),
        dynamic={"src": {0: "batch", 1: "sequence"}},
    )  # fmt: skip
    assert program.proof.ok and not program.report.escapes
