"""Signals: frames, transforms of Fourier, filters."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[b,n=96]")
def frames(x):
    return x.unfold(-1, 16, 8).square().mean(-1)


@model(x="float[b,n=96]")
def frames_padded(x):
    rest = (x.shape[-1] - 16) % 8
    if rest:
        x = F.pad(x, (0, 8 - rest))
    return x.unfold(-1, 16, 8) * torch.hann_window(16)


@model(x="float[b,n=96]")
def magnitudes(x):
    return torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True).abs()


@model(x="float[b,n=96]")
def power_not_centered(x):
    s = torch.stft(x, 32, 16, window=torch.hamming_window(32), center=False, return_complex=True)
    return torch.view_as_real(s).square().sum(-1)


@model(x="float[b,n=96]")
def there_and_back(x):
    w = torch.hann_window(16)
    s = torch.stft(x, 16, 4, window=w, return_complex=True)
    return torch.istft(s, 16, 4, window=w, length=x.shape[-1])


@model(x="float[b,n=96]")
class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", torch.rand(6, 9))
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        s = torch.stft(x, 16, 8, window=self.window, return_complex=True).abs().square()
        mel = (self.bank @ s).clamp(min=1e-6).log10()
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8)
        return (mel + 4) / 4


@model(x="float[b,n=96]")
def preemphasis(x):
    return torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)


@model(x="float[b,n=40]", most=131)
def recursive_filter(x):
    y, out = x[:, 0], []
    for t in range(x.shape[1]):
        y = 0.9 * y + 0.1 * x[:, t]
        out.append(y)
    return torch.stack(out, 1)


@model(x="float[b,n=40]", most=131)
def biquad(x):
    y1 = y2 = x1 = x2 = torch.zeros(x.shape[0])
    out = []
    for t in range(x.shape[1]):
        y = 0.2 * x[:, t] + 0.3 * x1 + 0.2 * x2 + 0.5 * y1 - 0.2 * y2
        x2, x1, y2, y1 = x1, x[:, t], y1, y
        out.append(y)
    return torch.stack(out, 1)


@model(x="float[b,n=40]")
def convolved_by_fft(x):
    kernel = torch.tensor([0.5, 0.3, 0.2])
    n = x.shape[-1] + 2
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)


@model(x="float[b,n=40]")
def power_spectrum(x):
    s = torch.fft.rfft(x)
    return s.real.square() + s.imag.square()


@model(x="float[b,n=40]")
def autocorrelation(x):
    n = x.shape[-1]
    s = torch.fft.rfft(x, 2 * n)
    return torch.fft.irfft(s * s.conj(), 2 * n)[..., :n] / n


@model(x="float[b,n=40]")
def envelope(x):
    n = x.shape[-1]
    s = torch.fft.fft(x)
    h = torch.zeros(n)
    h[0] = 1
    h[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        h[n // 2] = 1
    return torch.fft.ifft(s * h).abs()


@model(x="float[b,n=40]")
def frequencies(x):
    f = torch.fft.rfftfreq(x.shape[-1], 1 / 100)
    p = torch.fft.rfft(x).abs()
    return (p * f).sum(-1) / (p.sum(-1) + 1e-3)


@model(x="float[b,n=40]")
def low_pass(x):
    s = torch.fft.rfft(x)
    keep = torch.arange(s.shape[-1]) < s.shape[-1] // 2
    return torch.fft.irfft(s * keep, n=x.shape[-1])


@model(x="float[b,n=40]")
def zero_crossings(x):
    return (x[:, 1:] * x[:, :-1] < 0).float().mean(1)


@model(x="float[b,n=40]")
def peak_normalized(x):
    peak = x.abs().amax(-1, keepdim=True)
    return torch.where(peak > 0, x / peak.clamp(min=1e-6), x)


@model(x="float[b,n=40]")
def loudness_gate(x):
    frames = F.pad(x, (0, -x.shape[-1] % 8)).unflatten(-1, (-1, 8))
    loud = frames.square().mean(-1, keepdim=True) > 0.5
    return (frames * loud).flatten(1)[:, : x.shape[-1]]


@model(x="float[b,n=40]")
def resampled_linear(x):
    return F.interpolate(x[:, None], scale_factor=0.75, mode="linear")[:, 0]


@model(x="float[b,n=40]")
def resampled_to_rate(x):
    n = int(x.shape[-1] * 8000 / 11025)
    return F.interpolate(x[:, None], size=n, mode="linear", align_corners=True)[:, 0]


@model(x="float[b,n=40]")
class StridedFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(1, 4, 5, 3), nn.Conv1d(4, 4, 3, 2)

    def forward(self, x):
        return self.b(F.gelu(self.a(x[:, None])))


@model(x="float[b,n=40]", i="lengths[b]<n")
class LengthsOfFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 5, 3, padding=2)

    def forward(self, x, i):
        y = self.conv(x[:, None])
        lengths = torch.div(i + 4 - 5, 3, rounding_mode="floor") + 1
        keep = torch.arange(y.shape[-1])[None] < lengths[:, None]
        return y * keep[:, None], lengths


@model(x="float[b,n=40]")
def moving_average(x):
    total = F.pad(x.cumsum(-1), (1, 0))
    return (total[:, 5:] - total[:, :-5]) / 5


@model(x="float[b,n=40]")
def deltas(x):
    kernel = torch.tensor([[[-2.0, -1, 0, 1, 2]]]) / 10
    return F.conv1d(F.pad(x[:, None], (2, 2), mode="replicate"), kernel)[:, 0]


@model(x="float[b,n=40]")
def cosine_transform(x):
    n = x.shape[-1]
    k = torch.arange(n).float()
    basis = torch.cos(math.pi / n * (k[None] + 0.5) * k[:, None])
    return x @ basis.t() * math.sqrt(2 / n)


@model(x="uniform[b,n=40]")
def mu_law(x):
    y = x.sign() * torch.log1p(255 * x.abs()) / math.log1p(255)
    return ((y + 1) / 2 * 255 + 0.5).long()


@model(x="float[b,n=40]")
def chunked_overlap_add(x):
    out = torch.zeros(x.shape[0], x.shape[1] + 8)
    for start in range(0, x.shape[1] - 7, 4):
        out[:, start : start + 8] += x[:, start : start + 8] * torch.hann_window(8)
    return out


@model(x="float[b,n=40]")
def decibels(x):
    return 20 * torch.log10(x.abs().clamp(min=1e-4)) - 20 * torch.log10(
        x.abs().amax().clamp(min=1e-4)
    )


@model(x="float[b,n=40]")
def phase_steps(x):
    s = torch.fft.rfft(x[:, : x.shape[1] // 2 * 2])
    return torch.view_as_real(s[:, 1:] * s[:, :-1].conj())


@model(x="float[b,n=40]")
def padded_to_even(x):
    if x.shape[-1] % 2:
        x = F.pad(x, (0, 1))
    return x[:, ::2] + x[:, 1::2]
