"""Models that differentiate as they run: forces of an energy, slopes of a field, saliency of pixels."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad

import hx
from hx.errors import Differentiates
from hx.recording.runs import derivatives


class Forces(nn.Module):
    """The energy of particles, and what pulls at each."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(),
            nn.Linear(16, 1),
        )  # fmt: skip

    def forward(self, places):
        with torch.enable_grad():
            places = places.detach().requires_grad_()
            apart = (places[:, None] - places[None]).pow(2).sum(-1)
            energy = (self.net(places).squeeze(-1) + torch.exp(-apart).sum(1)).sum()
            (slope,) = torch.autograd.grad(energy, places)
        return {"energy": energy.detach(), "forces": -slope}


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return torch.func.vmap(torch.func.grad(lambda p: self.field(p).sum()))(x)


class Pooled(nn.Module):
    """By `backward`, through sums by index."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            share = torch.softmax(self.linear(x), -1)[:, 0]
            torch.zeros(1).index_add(0, torch.zeros_like(x[:, 0]).long(), share).pow(
                2
            ).sum().backward()
        return x.grad


class Salient(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip

    def forward(self, image):
        with torch.enable_grad():
            image = image.detach().requires_grad_()
            return torch.autograd.grad(self.net(image)[:, 0].sum(), image)[0].abs()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(Forces, (5, 3)), (Slopes, (5, 3)), (Pooled, (5, 3)), (Salient, (2, 3, 8, 8))],
)
def test_derivatives_are_in_the_graph(kind, shape):
    model = kind().eval()
    assert not hx.scan(model, torch.randn(shape), dynamic=[{0: "n"}]).missing
    before = {name: p.grad for name, p in model.named_parameters()}
    program = hx.export(model, torch.randn(shape), dynamic=[{0: "n"}])
    assert program.proof.ok and "differentiates as it runs" in program.report.notes[-1]
    assert {name: p.grad for name, p in model.named_parameters()} == before
    for n in (1, 2, 9):
        x = torch.randn(n, *shape[1:])
        found, real = program.run(x), kind.forward(model, x)
        real = {k: v.detach() for k, v in real.items()} if isinstance(real, dict) else real.detach()
        torch.testing.assert_close(found, real, rtol=1e-4, atol=1e-5)
        model.zero_grad()


@pytest.mark.parametrize(
    ("model", "real"),
    [
        (torch.func.grad(lambda x: x.pow(3).sum()), lambda x: 3 * x * x),
        (lambda x: torch.func.jvp(torch.sin, (x,), (2 * torch.ones_like(x),))[1],
         lambda x: 2 * x.cos()),
    ],
    ids=["grad", "jvp"],
)  # fmt: skip
def test_functions_that_are_derivatives(model, real):
    program = hx.export(model, torch.randn(2, 4), dynamic=[{0: "n"}])
    for n in (1, 2, 7):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), real(x))


FIELD = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


@pytest.mark.parametrize(
    "model",
    [
        torch.func.grad(lambda x: FIELD(x).sum()),
        lambda x: torch.vmap(torch.func.jacfwd(FIELD))(x.flatten(0, 1)),
        lambda x: torch.vmap(torch.func.jacrev(FIELD))(x[0]) * FIELD(x).mean(),
    ],
    ids=["grad", "jacfwd", "jacrev"],
)
def test_layers_of_several_axes_stay_open(model):
    program = hx.export(model, torch.randn(2, 3, 4), dynamic=[{0: "b", 1: "n"}])
    for b, n in ((1, 1), (2, 7), (5, 2)):
        x = torch.randn(b, n, 4)
        torch.testing.assert_close(program.run(x), model(x).detach(), rtol=1e-4, atol=1e-5)


class Slope(nn.Module):
    """Of the squares of what a layer gives."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.layer(x).pow(2).sum(), x)[0]


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 3, stride=2, padding=1),
        nn.ConvTranspose2d(3, 4, 3),
        nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AdaptiveAvgPool2d(3),
        nn.AdaptiveMaxPool2d(2),
        nn.Upsample(scale_factor=2),
        nn.Upsample(scale_factor=1.5, mode="nearest-exact"),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=2, mode="bicubic"),
        nn.ReflectionPad2d(1),
        nn.ReplicationPad2d((1, 2, 0, 1)),
        nn.LocalResponseNorm(2),
        nn.PReLU(3),
        lambda x: F.interpolate(x, size=(5, 6), mode="bilinear", antialias=True),
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: torch.cdist(x, x.flip(2) + 1),
        lambda x: torch.cdist(x, x, p=3.0),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: F.grid_sample(x, torch.full((x.shape[0], 3, 3, 2), 0.3), align_corners=False),
    ],
    ids=lambda layer: layer._get_name() if isinstance(layer, nn.Module) else "function",
)
@pytest.mark.parametrize("dynamic", [None, {0: "n", 2: "h"}], ids=["fixed", "dynamic"])
def test_layers_are_differentiated(layer, dynamic):
    model = Slope(layer).eval()
    program = hx.export(model, torch.randn(2, 3, 8, 8), dynamic=dynamic and [dynamic])
    assert not program.report.escapes
    for n, h in ((1, 6), (5, 11), (3, 16)) if dynamic else ((2, 8),):
        x = torch.randn(n, 3, h, 8)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_derivative_without_a_converter_is_named():
    model = Slope(F.pdist)
    with pytest.raises(hx.Unsupported, match="differentiates") as caught:
        hx.export(model, torch.randn(5, 3))
    assert "needs aten::_pdist_backward, which has no converter" in caught.value.why
    assert "--target aten::_pdist_backward" in caught.value.hint


def test_what_pytorch_does_not_trace_stays_refused():
    class Asking(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                y = x.pow(3).sum()
                (slope,) = torch.autograd.grad(y, x)
            return slope if float(slope.sum()) > 0 else -slope

    with pytest.raises(hx.Unsupported, match="differentiates") as caught:
        hx.export(Asking(), torch.randn(3), dynamic=[{0: "n"}])
    assert "GuardOnDataDependentSymNode" in caught.value.why


def test_why_what_is_traced_is_not_right_is_told():
    def model(x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            parts = [row.sum() * i for i, row in enumerate(x.exp())]
            return torch.autograd.grad(sum(parts), x)[0]

    with pytest.raises(hx.Unsupported, match="differentiates") as caught:
        hx.export(model, torch.randn(3, 2), dynamic=[{0: "n"}])
    assert "runs as often as in the recording" in caught.value.why


# Operators of derivatives, and others, that PyTorch says by operators that are known.

aten = torch.ops.aten


@pytest.mark.parametrize(
    "function",
    [
        lambda g, x: aten.gelu_backward(g, x),
        lambda g, x: aten.gelu_backward.default(g, x),
        lambda g, x: aten.mse_loss_backward(g.sum(), g, x, 1),
        lambda g, x: aten.huber_loss_backward(g.sum(), g, x, 1, 0.5),
        lambda g, x: aten._softmax_backward_data(g, x.softmax(1), 1, torch.float32),
        lambda g, x: aten.slice_backward(g, [x.shape[0] + 2, 4], 0, 1, -1, 1),
        lambda g, x: aten.embedding_dense_backward(g, (x[:, 0] > 0).long(), 3, -1, True),
    ],
)
def test_an_operator_that_others_make_up(function):
    given = torch.randn(3, 4), torch.randn(3, 4)
    program = hx.export(function, given, dynamic=[{0: "n"}, {0: "n"}])
    assert not program.report.escapes
    for n in (1, 2, 7):
        given = torch.randn(n, 4), torch.randn(n, 4)
        torch.testing.assert_close(program.run(*given), function(*given))


def test_an_operator_that_others_make_up_of_which_some_are_missing():
    attends = aten._scaled_dot_product_flash_attention_for_cpu
    with pytest.raises(hx.MissingConverters) as caught:
        hx.export(lambda x: attends(x, x, x)[0], torch.randn(1, 2, 3, 4))
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert [(m.target, m.count) for m in caught.value.missing] == [(name, 1)]


@pytest.mark.parametrize("way", [hx.scan, hx.export])
def test_what_the_trace_of_it_raises_does_not_hide_the_refusal(way, monkeypatch):
    def broken(recipe, choices, refused):
        return dataclasses.replace(recipe, body=lambda *args, **kwargs: 1 / 0)

    monkeypatch.setattr(derivatives, "traced", broken)
    with pytest.raises(Differentiates):
        way(Forces(), torch.randn(4, 3))


def along(x):
    with forward_ad.dual_level():
        y = torch.sin(forward_ad.make_dual(x, torch.ones_like(x))) * 2
        return forward_ad.unpack_dual(y).tangent


def curved(x):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(torch.lgamma(x.abs() + 1).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0]


NET = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
WEIGHT = torch.randn(5, 5)


def by_parts(x):
    return torch.unbind(NET(x)[:, 1])


def quadratic(x):
    return torch.einsum("bi,ij,bj->b", x, WEIGHT, x).sum()


@pytest.mark.parametrize("scores", [by_parts, quadratic])
def test_scores_of_as_many_rows_as_there_are(scores):
    def model(x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            return torch.autograd.grad(scores(x), x)[0]

    program = hx.export(model, torch.randn(4, 5), dynamic=[{0: "n"}])
    for n in (1, 7):
        x = torch.randn(n, 5)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def likelihood(x):
    return torch.linalg.slogdet(x.mT @ x + torch.eye(5)).logabsdet


def turned(x):
    return torch.det((x.mT @ x + torch.eye(5) * x[0] + 9).mT)


@pytest.mark.parametrize("scores", [likelihood, turned])
def test_determinants_by_the_factors_that_pytorch_solves_by(scores):
    def model(x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            return torch.autograd.grad(scores(x), x)[0]

    program = hx.export(model, torch.rand(3, 5) + 0.1, dynamic=[{0: "n"}])
    for n in (4, 7):
        x = torch.rand(n, 5)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-3, atol=1e-3)


LINEAR = nn.Linear(5, 2)


def slanted(x):
    return torch.func.jacfwd(lambda row: LINEAR(row).exp())(x[0])


@pytest.mark.parametrize("model", [along, curved, slanted])
def test_what_a_trace_asks_of_shapes_is_no_part_of_it(model):
    for _ in range(2):  # nor what PyTorch imports at the first time
        program = hx.export(model, torch.randn(4, 5))
        x = torch.randn(4, 5)
        torch.testing.assert_close(program.run(x), model(x).detach(), rtol=1e-4, atol=1e-5)


class Named:
    """As tensordict's: made of tensors alone, whose shapes it asks for."""

    def __init__(self, **tensors):
        self.tensors, self.rows = tensors, [list(t.shape) for t in tensors.values()]


torch.utils._pytree.register_pytree_node(
    Named,
    lambda x: (list(x.tensors.values()), tuple(x.tensors)),
    lambda values, names: Named(**dict(zip(names, values))),
)


@dataclasses.dataclass
class Both:
    slope: torch.Tensor
    factor: float


def test_containers_among_what_is_returned():
    weight = torch.randn(3, 3)

    def model(x):
        slope = torch.func.grad(lambda w: (x @ w).tanh().sum())(weight)
        return Named(slope=slope, twice=slope * 2), Both(slope + 1, 0.5), x * 2

    program = hx.export(model, torch.randn(4, 3), dynamic={"x": {0: "n"}})
    x = torch.randn(5, 3)

    def flat(named, both, twice):
        return [*named.tensors.values(), both.slope, both.factor, twice]

    torch.testing.assert_close(flat(*program.run(x)), flat(*model(x)))


def test_a_function_that_is_wrapped_is_traced_once(monkeypatch):
    relu, x = F.relu, torch.randn(5)
    monkeypatch.setattr(F, "relu", lambda x: relu(x) + 1)

    def slope(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad((F.relu(x) ** 2).sum(), x)[0]

    program = hx.export(slope, x)
    assert torch.allclose(program.run(x), slope(x))
