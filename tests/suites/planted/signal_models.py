"""Small models of sounds and pictures: spectra, filters, windows, paddings, halves, fixed sizes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from .drawn_inputs import Size, boxes, floats, uniform, whole
from .subject import planted

SOUND = {"t": Size(40, 16, 1200)}


@planted(SOUND, x=floats("b", "t"))
def spectrogram(x):
    window = torch.hann_window(16)
    found = torch.stft(x, 16, 8, window=window, center=True, return_complex=True)
    return (found.abs() + 1e-3).log(), found.real.mean(-1)


@planted(SOUND, x=floats("b", "t"))
class mel_energies(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(torch.rand(9, 5))

    def forward(self, x):
        x = torch.cat((x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]), 1)
        power = torch.fft.rfft(x.unfold(1, 16, 8) * torch.hamming_window(16)).abs() ** 2
        return (power @ self.filters).clamp(min=1e-2).log10() * 10


@planted(a=floats("b", 6), p=floats("b", 6))
def turned_numbers(a, p):
    z = torch.polar(a.abs() + 0.1, p) * torch.exp(1j * torch.arange(6) / 3)
    return z.real, z.imag, torch.view_as_real(z.conj() / (1 + z.abs()))


@planted(x=floats("b", 2, 8, 8))
class filtered_spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 8, 5, 2))

    def forward(self, x):
        z = torch.fft.rfft2(x) * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(z, s=(8, 8)) + x


@planted({"t": Size(24, 8)}, x=floats("b", 2, "t"))
class separated(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.deep = (
            nn.Conv1d(2, 6, 4, stride=2),
            nn.Conv1d(6, 6, 3, padding=2, dilation=2, groups=6),
        )
        self.norm, self.out = nn.GroupNorm(1, 6), nn.ConvTranspose1d(6, 2, 4, stride=2)
        self.prelu = nn.PReLU()

    def forward(self, x):
        y = self.into(x)
        return self.out(y * self.deep(self.norm(self.prelu(y))).sigmoid())


@planted({"h": Size(9, 4), "w": Size(7, 4)}, x=floats("b", 2, "h", "w"))
class reflected_and_circular(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.ReLU(),
            nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"),
        )  # fmt: skip


@planted({"t": Size(8, 4)}, x=floats("b", 2, "t"))
def paddings(x):
    some = F.pad(x, (2, 1), value=1.5), F.pad(x, (1, 2), mode="replicate")
    return *some, F.pad(x, (3, 0), mode="reflect"), F.pad(x, (-1, 2))


@planted({"h": Size(6, 2), "w": Size(5, 2)}, x=floats("b", 4, "h", "w"))
class several_norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4, eps=1e-3)
        self.three = nn.LocalResponseNorm(3)

    def forward(self, x):
        return self.three(self.one(x) + F.silu(self.two(x * 3)))


@planted(x=floats("b", 3, 12, 10))
def pooled_to_sizes(x):
    return F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (5, 4)), F.lp_pool2d(x, 2, 2)


@planted({"h": Size(9, 4), "w": Size(11, 4)}, x=floats("b", 2, "h", "w"))
def ceiled_pools(x):
    one = F.max_pool2d(x, 2, 2, ceil_mode=True)
    return one, F.avg_pool2d(x, (3, 2), (2, 3), padding=(1, 0), count_include_pad=True)


@planted({"h": Size(5, 2, 200), "w": Size(6, 2, 200)}, x=floats("b", 2, "h", "w"))
def resized_in_ways(x):
    cubic = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
    corners = F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True)
    return cubic, corners, F.interpolate(x, scale_factor=1.5, mode="nearest-exact")


@planted(
    {"h": Size(6, 2), "w": Size(5, 2)}, x=floats("b", 2, "h", "w"), flow=floats("b", "h", "w", 2)
)
def flown(x, flow):
    grid = flow.tanh() * 1.3
    one = F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True)
    return one + F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


@planted({"h": Size(7, 3), "w": Size(8, 3)}, x=floats("b", 2, "h", "w"))
def columns_of_patches(x):
    return F.unfold(x, (3, 2), padding=1, stride=2).softmax(1)


@planted(x=floats("b", 6, dtype=torch.float16))
class in_halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 8).half(), nn.Linear(8, 3).half()
        self.norm = nn.LayerNorm(8).half()

    def forward(self, x):
        return self.two(F.gelu(self.norm(self.one(x)))).float().softmax(-1)


@planted(x=floats("b", 6))
class rounded_in_the_middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 3).half()

    def forward(self, x):
        return self.two(self.one(x).relu().half()).float() * 2


@planted({"b": Size(2, 1, 70)}, x=floats("b", 1, 224, 224))
class large_picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 6, 7, stride=4, padding=3), nn.BatchNorm2d(6)
        self.deep, self.point = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.stem(x)).relu(), 3, 2, padding=1)
        x = x[:, :6] + self.deep(x).relu()
        return self.head(F.hardswish(self.point(x)).mean((2, 3)))


@planted({"b": Size(2, 1, 70)}, x=floats("b", 1, 224, 224))
class large_patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.place = nn.Conv2d(1, 16, 32, stride=32), nn.Parameter(torch.randn(50, 16))
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.place
        return self.head(self.layer(x)[:, 0])


@planted(x=floats(2, 3, 8, 8))
class of_one_size(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3), nn.Linear(4 * 9, 3)

    def forward(self, x):
        x = F.avg_pool2d(F.elu(self.one(x)), 2)
        return self.two(x.reshape(2, -1)), x.amax((2, 3))


@planted(x=whole("b", 4, 5, 3, ends=(0, 255), dtype=torch.uint8))
class bytes_of_pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        x = x.permute(0, 3, 1, 2).float() / 255
        mean, std = x.new_tensor([0.5, 0.4, 0.3]), x.new_tensor([0.2, 0.25, 0.3])
        return self.conv((x - mean[:, None, None]) / std[:, None, None])


@planted(x=floats("b", 6))
class quantized_by_hand(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 127
        q = (x / scale).round().clamp(-128, 127)
        w = (self.weight * 16).round().clamp(-8, 7) / 16
        return q.to(torch.int8), (q @ w) * scale


@planted({"h": Size(8, 4), "w": Size(6, 4)}, x=floats("b", 2, "h", "w"))
def peaks(x):
    heat = x.sigmoid()
    heat = heat * (F.max_pool2d(heat, 3, 1, padding=1) == heat)
    best, at = heat.flatten(1).topk(5, -1)
    width = x.shape[-1]
    return best, at // width % x.shape[-2], at % width


@planted({"n": Size(12, 4)}, x=floats("n", 4), anchors=boxes("n"), scores=floats("n"))
def proposals(x, anchors, scores):
    best, at = scores.sigmoid().topk(4)
    anchors, x = anchors[at], x[at]
    size = anchors[:, 2:] - anchors[:, :2]
    middle = anchors[:, :2] + size / 2 + x[:, :2] * size
    size = size * x[:, 2:].clamp(-2, 2).exp()
    found = torch.cat((middle - size / 2, middle + size / 2), 1).clamp(0, 60)
    keep = ((found[:, 2:] - found[:, :2]) >= 2).all(1) & (best > 0.3)
    return found * keep[:, None], best.where(keep, 0.0), keep


@planted(boxes_=boxes("n"), scores=uniform("n"))
def suppressed_in_turn(boxes_, scores):
    order = scores.argsort(descending=True)
    found = boxes_[order]
    area = (found[:, 2:] - found[:, :2]).prod(-1)
    start = torch.maximum(found[:, None, :2], found[:, :2])
    end = torch.minimum(found[:, None, 2:], found[:, 2:])
    both = (end - start).clamp(min=0).prod(-1)
    over = both / (area[:, None] + area - both + 1e-9) > 0.3
    keep = torch.ones(len(scores), dtype=torch.bool)
    for i in range(len(scores)):
        keep = keep & ~(over[i] & keep[i] & (torch.arange(len(scores)) > i))
    return order, keep


@planted({"t": Size(9, 3)}, x=floats("b", "t", 4))
class state_space(nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.into, self.out = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.decay = nn.Parameter(torch.rand(4, 3))

    def forward(self, x):
        dt = F.softplus(self.step(x))
        a = torch.exp(-dt[..., None] * self.decay.exp())
        u = (dt * x)[..., None] * self.into(x)[:, :, None]
        h, found = torch.zeros_like(u[:, 0]), []
        for i in range(x.shape[1]):
            h = a[:, i] * h + u[:, i]
            found.append((h * self.out(x[:, i])[:, None]).sum(-1))
        return torch.stack(found, 1)


@planted({"h": Size(6, 3), "w": Size(7, 3)}, x=floats("b", 1, "h", "w"))
def edges(x):
    kernel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    found = F.conv2d(
        F.pad(x, (1, 1, 1, 1), mode="replicate"), torch.stack((kernel, kernel.T))[:, None]
    )
    size = found.pow(2).sum(1, keepdim=True).add(1e-6).sqrt()
    angle = torch.atan2(found[:, :1], found[:, 1:])
    return size, (angle / math.pi * 4).round() % 4
