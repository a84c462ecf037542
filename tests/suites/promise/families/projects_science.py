"""Flows, graphs, spectra, quantized layers and functional transforms, as projects write them."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from ..listing import factory, model


@model(x="float[b,6]", most=60)
class Coupling(nn.Module):
    """Layers of a flow, and the logarithm of their volume."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6)) for _ in range(3)
        )

    def forward(self, x):
        total = x.new_zeros(len(x))
        for i, net in enumerate(self.nets):
            a, b = x.chunk(2, -1)
            if i % 2:
                a, b = b, a
            scale, shift = net(a).chunk(2, -1)
            scale = torch.tanh(scale)
            b = b * scale.exp() + shift
            total = total + scale.sum(-1)
            x = torch.cat([a, b] if i % 2 == 0 else [b, a], -1)
        prior = -0.5 * (x**2 + math.log(2 * math.pi)).sum(-1)
        return x, prior + total


@model(x="uniform[b,n]", most=40)
class RationalSpline(nn.Module):
    """A monotonic spline of rational quadratics with linear tails."""

    def __init__(self, bins=5):
        super().__init__()
        self.widths = nn.Parameter(torch.randn(bins))
        self.heights = nn.Parameter(torch.randn(bins))
        self.slopes = nn.Parameter(torch.randn(bins + 1))

    @staticmethod
    def knots(raw):
        share = F.softmax(raw, -1) * (1 - 1e-3 * raw.shape[-1]) + 1e-3
        edges = F.pad(share.cumsum(-1), (1, 0))
        edges[..., 0], edges[..., -1] = 0.0, 1.0
        return edges, edges[..., 1:] - edges[..., :-1]

    def forward(self, x):
        inside = (x >= 0) & (x <= 1)
        xk, w = self.knots(self.widths)
        yk, h = self.knots(self.heights)
        d = F.softplus(self.slopes) + 1e-3
        at = (torch.searchsorted(xk, x.clamp(0, 1)) - 1).clamp(0, len(w) - 1)
        s = h[at] / w[at]
        t = (x.clamp(0, 1) - xk[at]) / w[at]
        top = h[at] * (s * t**2 + d[at] * t * (1 - t))
        bottom = s + (d[at] + d[at + 1] - 2 * s) * t * (1 - t)
        return torch.where(inside, yk[at] + top / bottom, x)


@model(x="float[n,4]", edges="int[2,e=9]<n", most=60)
class MessagePassing(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(8, 6)
        self.update = nn.GRUCell(6, 4)

    def forward(self, x, edges):
        source, target = edges
        m = self.message(torch.cat([x[source], x[target]], -1)).relu()
        total = torch.zeros(x.size(0), m.size(1)).scatter_add_(0, target[:, None].expand_as(m), m)
        degree = torch.bincount(target, minlength=x.size(0)).clamp(min=1)
        return self.update(total / degree[:, None], x)


@model(x="float[n,4]", edges="int[2,e=9]<n", most=60)
class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4, bias=False)
        self.a = nn.Linear(8, 1)

    @staticmethod
    def softmax(score, index, n):
        top = torch.full((n,), -torch.inf).scatter_reduce(0, index, score, "amax")
        out = (score - top[index]).exp()
        total = torch.zeros(n).index_add(0, index, out)
        return out / (total[index] + 1e-16)

    def forward(self, x, edges):
        n = x.size(0)
        loops = torch.arange(n).repeat(2, 1)
        source, target = torch.cat([edges, loops], 1)
        h = self.lin(x)
        score = F.leaky_relu(self.a(torch.cat([h[source], h[target]], -1)).squeeze(-1), 0.2)
        alpha = self.softmax(score, target, n)
        return torch.zeros_like(h).index_add_(0, target, alpha[:, None] * h[source])


@model(x="float[n,4]", batch="int[n]<3", most=60)
def readout(x, batch):
    """One row per graph: means, maxima and counts."""
    b = int(batch.max()) + 1
    total = x.new_zeros(b, x.size(1)).index_add_(0, batch, x)
    count = torch.zeros(b).index_add_(0, batch, torch.ones(len(batch)))
    top = x.new_full((b, x.size(1)), -1e9).scatter_reduce_(
        0, batch[:, None].expand_as(x), x, "amax"
    )
    return total / count.clamp(min=1)[:, None], top


@model(x="float[n=5,3]", y="float[m=4,3]", most=30)
class GaussianProcess(nn.Module):
    """The mean and variance at new points."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    def kernel(self, a, b):
        return torch.exp(-0.5 * torch.cdist(a, b) ** 2 / self.log_scale.exp())

    def forward(self, x, y):
        k = self.kernel(x, x) + 0.5 * torch.eye(len(x))
        chol = torch.linalg.cholesky(k)
        cross = self.kernel(x, y)
        alpha = torch.cholesky_solve(x.sum(-1, keepdim=True), chol)
        v = torch.linalg.solve_triangular(chol, cross, upper=False)
        return cross.T @ alpha, 1 - (v**2).sum(0)


@model(x="float[b,4]", most=60)
class RungeKutta(nn.Module):
    """Ten steps of an ordinary differential equation."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))

    def field(self, t, x):
        return self.f(torch.cat([x, torch.full_like(x[:, :1], t)], -1))

    def forward(self, x):
        steps = 6
        h = 1.0 / steps
        path = [x]
        for i in range(steps):
            t = i * h
            k1 = self.field(t, x)
            k2 = self.field(t + h / 2, x + h / 2 * k1)
            k3 = self.field(t + h / 2, x + h / 2 * k2)
            k4 = self.field(t + h, x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            path.append(x)
        return torch.stack(path, 1)


@model(x="float[b,n]", most=30)
def soft_rank(x):
    """Ranks that have a slope everywhere."""
    return 0.5 + torch.sigmoid((x[:, None, :] - x[:, :, None]) / 0.5).sum(-1)


@model(x="float[b,n]", most=30)
def neural_sort(x):
    """A soft matrix of the order, as in NeuralSort."""
    n = x.size(1)
    s = x.unsqueeze(-1)
    one = torch.ones((n, 1))
    a = (s - s.permute(0, 2, 1)).abs()
    b = torch.matmul(a, one @ one.T)
    scaling = (n + 1 - 2 * (torch.arange(n) + 1)).float()
    c = torch.matmul(s, scaling.unsqueeze(0))
    return torch.softmax((c - b).permute(0, 2, 1), -1)


@model(x="float[b,n=5,5]", most=30)
def sinkhorn(x):
    for _ in range(8):
        x = x - torch.logsumexp(x, -1, keepdim=True)
        x = x - torch.logsumexp(x, -2, keepdim=True)
    return x.exp()


@model(x="float[b,4]", z="float[b,3]", most=40)
class HyperNetwork(nn.Module):
    """Weights of each row come from another input."""

    def __init__(self):
        super().__init__()
        self.make = nn.Linear(3, 4 * 5 + 5)

    def forward(self, x, z):
        w, b = self.make(z).split([20, 5], -1)
        return torch.baddbmm(b.unsqueeze(1), x.unsqueeze(1), w.view(-1, 4, 5)).squeeze(1)


@model(x="float[b,4,h=6,w=6]", z="float[b,3]", most=24)
class ModulatedConv(nn.Module):
    """Weights scaled by a style, one group per picture, as in StyleGAN2."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 5, 4, 3, 3))
        self.style = nn.Linear(3, 4)

    def forward(self, x, z):
        b, c, h, w = x.shape
        weight = self.weight * self.style(z).view(b, 1, c, 1, 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(b, 5, 1, 1, 1)
        y = F.conv2d(x.reshape(1, b * c, h, w), weight.view(b * 5, c, 3, 3), padding=1, groups=b)
        return y.view(b, 5, h, w)


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).mT


@factory(x="float[b,4]")
def parametrized():
    """Layers whose weights are computed: orthogonal, spectral, weight norm and symmetric."""
    layers = nn.Sequential(
        parametrizations.orthogonal(nn.Linear(4, 4)),
        nn.ELU(),
        parametrizations.spectral_norm(nn.Linear(4, 4)),
        parametrizations.weight_norm(nn.Linear(4, 4)),
        nn.Linear(4, 4),
    )
    parametrize.register_parametrization(layers[-1], "weight", Symmetric())
    return layers


@model(x="float[b,8]", most=60)
class QuantizedByHand(nn.Module):
    """Weights of four bits in int8, two by two, with scales of groups."""

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 255, (6, 4), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(6, 2) + 0.1)

    @property
    def weight(self):
        low, high = self.packed & 0xF, self.packed >> 4
        w = torch.stack([low, high], -1).view(6, 8).to(torch.float32) - 8
        return (w.view(6, 2, 4) * self.scales[..., None]).view(6, 8)

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        q = (x / scale).round().clamp(-128, 127)
        return F.linear(q * scale, self.weight)


@model(x="float[b,5]", most=60)
class Ensemble(nn.Module):
    """Several models in one, with torch.func."""

    def __init__(self):
        super().__init__()
        models = [nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
        params, _ = torch.func.stack_module_state(models)
        self.names = list(params)
        self.params = nn.ParameterList(params[name].detach() for name in self.names)
        self.base = [models[0]]

    def forward(self, x):
        def call(params, x):
            return torch.func.functional_call(self.base[0], params, (x,))

        params = dict(zip(self.names, self.params))
        return torch.vmap(call, in_dims=(0, None))(params, x).mean(0)


@model(x="float[b,3]", most=40)
def per_sample_products(x):
    """Rows mapped by vmap."""

    def one(row):
        outer = torch.outer(row, row)
        return outer.trace() + (outer @ row).norm()

    return torch.vmap(one)(x)


@model(x="float[b,3]", most=40)
class Force(nn.Module):
    """The slope of an energy by hand-made torch.func.grad."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, x):
        return -torch.func.grad(lambda p: self.energy(p).sum())(x)


@model(x="float[b,n=12]", most=200)
def spectral_gate(x):
    """Frequencies below a threshold vanish."""
    spectrum = torch.fft.rfft(x)
    power = spectrum.abs() ** 2
    keep = power > power.mean(-1, keepdim=True)
    return torch.fft.irfft(spectrum * keep, n=x.shape[-1])


@model(x="float[b,4,h=8,w=6]", most=32)
class FourierLayer(nn.Module):
    """A few frequencies are mixed by complex weights, as in neural operators."""

    def __init__(self, modes=2):
        super().__init__()
        self.modes = modes
        self.w1 = nn.Parameter(torch.randn(4, 4, modes, modes, dtype=torch.cfloat) / 4)
        self.w2 = nn.Parameter(torch.randn(4, 4, modes, modes, dtype=torch.cfloat) / 4)

    def forward(self, x):
        m = self.modes
        ft = torch.fft.rfft2(x)
        out = torch.zeros(x.size(0), 4, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", ft[:, :, :m, :m], self.w1)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", ft[:, :, -m:, :m], self.w2)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))


@model(x="float[b,t=40]", most=200)
class Vocoder(nn.Module):
    """A spectrogram, a mask, and back."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.mask = nn.Conv1d(9, 9, 3, padding=1)

    def forward(self, x):
        spec = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        mask = self.mask(spec.abs()).sigmoid()
        return torch.istft(spec * mask, 16, 4, window=self.window, length=x.shape[-1])


@model(x="float[b,n=10,4]", most=60)
class StateSpace(nn.Module):
    """A selective scan, step by step."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(4, 3))
        self.proj = nn.Linear(4, 10)

    def forward(self, x):
        b, n, d = x.shape
        delta, B, C = self.proj(x).split([4, 3, 3], -1)
        delta = F.softplus(delta)
        decay = torch.exp(-delta.unsqueeze(-1) * self.a)
        inputs = delta.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)
        h = torch.zeros(b, d, 3)
        out = []
        for i in range(n):
            h = decay[:, i] * h + inputs[:, i]
            out.append(torch.einsum("bdn,bn->bd", h, C[:, i]))
        return torch.stack(out, 1)


class Output(NamedTuple):
    mean: torch.Tensor
    deviation: torch.Tensor
    share: torch.Tensor | None = None


@model(x="float[b,4]", most=60)
class MixtureDensity(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            OrderedDict([("hidden", nn.Linear(4, 8)), ("act", nn.Tanh()), ("out", nn.Linear(8, 9))])
        )

    def forward(self, x):
        share, mean, deviation = self.net(x).view(-1, 3, 3).unbind(-1)
        mixture = torch.distributions.Categorical(logits=share)
        parts = torch.distributions.Normal(mean, F.softplus(deviation) + 0.1)
        made = torch.distributions.MixtureSameFamily(mixture, parts)
        return Output(made.mean, made.stddev, mixture.probs), made.log_prob(x[:, 0])


@model(x="float[n,3]", most=30)
def kalman(x):
    """A filter along the rows."""
    mean, cov = torch.zeros(3), torch.eye(3)
    a = torch.eye(3) * 0.9
    out = []
    for z in x:
        mean, cov = a @ mean, a @ cov @ a.T + 0.1 * torch.eye(3)
        gain = cov @ torch.linalg.inv(cov + 0.5 * torch.eye(3))
        mean = mean + gain @ (z - mean)
        cov = (torch.eye(3) - gain) @ cov
        out.append(mean)
    return torch.stack(out)


@model(x="float[b,n,6]", most=60)
class VectorQuantizer(nn.Module):
    """Residual codes, the nearest of each book."""

    def __init__(self):
        super().__init__()
        self.books = nn.ModuleList(nn.Embedding(8, 6) for _ in range(3))

    def forward(self, x):
        rest, total, codes = x, torch.zeros_like(x), []
        for book in self.books:
            flat = rest.reshape(-1, 6)
            d = flat.pow(2).sum(1, True) - 2 * flat @ book.weight.T + book.weight.pow(2).sum(1)
            code = d.argmin(-1).view(x.shape[:-1])
            y = book(code)
            rest, total = rest - y, total + y
            codes.append(code)
        return total, torch.stack(codes, -1)


@model(x="float[b,n=6]", most=100)
def lowpass_designed(x):
    """A filter whose length follows from the input."""
    n = x.shape[-1]
    half = max(1, n // 4)
    t = torch.arange(-half, half + 1).float()
    kernel = torch.sinc(t / 2) * torch.hann_window(2 * half + 1, periodic=False)
    kernel = kernel / kernel.sum()
    return F.conv1d(F.pad(x[:, None], (half, half), "replicate"), kernel[None, None])[:, 0]
