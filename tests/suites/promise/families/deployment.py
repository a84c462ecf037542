"""Networks, and what stands before and behind them: masks, windows, anchors, decoding, schedules."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[b=2,n=10,16]", most=40)
class RotaryCached(nn.Module):
    def __init__(self):
        super().__init__()
        self.max_seq = 0
        self.cos = self.sin = None
        self.qk = nn.Linear(16, 32)
        self.register_buffer(
            "inv", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8), persistent=False
        )

    def tables(self, n, device, dtype):
        if n > self.max_seq:
            self.max_seq = n
            t = torch.arange(n, device=device, dtype=self.inv.dtype)
            f = torch.outer(t, self.inv)
            emb = torch.cat((f, f), dim=-1)
            self.cos, self.sin = emb.cos().to(dtype), emb.sin().to(dtype)
        return self.cos[:n], self.sin[:n]

    def forward(self, x):
        b, n, _ = x.shape
        q, k = self.qk(x).view(b, n, 4, 8).chunk(2, dim=2)
        cos, sin = self.tables(n, x.device, x.dtype)

        def rot(t):
            a, c = t[..., : t.shape[-1] // 2], t[..., t.shape[-1] // 2 :]
            return torch.cat((-c, a), -1)

        cos, sin = cos[None, :, None], sin[None, :, None]
        q, k = q * cos + rot(q) * sin, k * cos + rot(k) * sin
        return torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(8)


@model(x="float[b=2,n=10,8]", most=40)
def alibi_causal(x):
    b, n, d = x.shape
    heads = 2
    slopes = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])
    pos = torch.arange(n)
    bias = -(pos[:, None] - pos[None, :]).abs()[None] * slopes[:, None, None]
    mask = torch.full((n, n), float("-inf")).triu(1)
    q = x.view(b, n, heads, d // heads).transpose(1, 2)
    s = q @ q.transpose(-1, -2) / (d // heads) ** 0.5 + bias + mask
    return (s.softmax(-1) @ q).transpose(1, 2).reshape(b, n, d)


@model(x="float[b=2,n=12,8]", most=40)
def sliding_window(x):
    n = x.size(1)
    i = torch.arange(n)
    keep = (i[:, None] >= i[None]) & (i[:, None] - i[None] < 4)
    s = x @ x.mT
    s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
    return s.softmax(-1) @ x


@model(x="float[b=2,3,h=17,w=22]", most=40)
def window_partition(x):
    ws = 5
    B, C, H, W = x.shape
    ph, pw = (ws - H % ws) % ws, (ws - W % ws) % ws
    x = F.pad(x, (0, pw, 0, ph))
    Hp, Wp = H + ph, W + pw
    w = x.view(B, C, Hp // ws, ws, Wp // ws, ws).permute(0, 2, 4, 3, 5, 1).reshape(-1, ws * ws, C)
    w = w - w.mean(1, keepdim=True)
    y = w.view(B, Hp // ws, Wp // ws, ws, ws, C).permute(0, 5, 1, 3, 2, 4).reshape(B, C, Hp, Wp)
    return y[:, :, :H, :W].contiguous()


@model(x="float[b=2,3,h=17,w=22]", most=40)
def shifted_mask(x):
    """Swin's mask of regions, filled by slices."""
    ws, ss = 4, 2
    H = int(math.ceil(x.shape[2] / ws)) * ws
    W = int(math.ceil(x.shape[3] / ws)) * ws
    img = torch.zeros((1, H, W, 1))
    cnt = 0
    for h in (slice(0, -ws), slice(-ws, -ss), slice(-ss, None)):
        for w in (slice(0, -ws), slice(-ws, -ss), slice(-ss, None)):
            img[:, h, w, :] = cnt
            cnt += 1
    m = img.view(1, H // ws, ws, W // ws, ws, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws)
    a = m.unsqueeze(1) - m.unsqueeze(2)
    return a.masked_fill(a != 0, -100.0).sum(0) + x.mean()


@model(logits="float[b=3,t=12,6]", most=40)
def ctc_collapse(logits):
    """Greedy decoding as a mask: blanks and repeats are -1."""
    ids = logits.argmax(-1)
    prev = F.pad(ids[:, :-1], (1, 0), value=-1)
    return torch.where((ids != prev) & (ids != 0), ids, torch.full_like(ids, -1))


@model(logits="float[t=12,6]", most=40)
def ctc_list(logits):
    """Greedy decoding with Python."""
    out, last = [], -1
    for i in logits.argmax(-1):
        i = int(i)
        if i != last and i != 0:
            out.append(i)
        last = i
    return torch.tensor(out, dtype=torch.long)


@model(scores="float[b=2,k=5,7]", acc="float[b,k]", most=24)
def beam_step(scores, acc):
    b, k, v = scores.shape
    total = (acc.unsqueeze(-1) + scores.log_softmax(-1)).view(b, k * v)
    top, at = total.topk(k, dim=-1)
    return top, torch.div(at, v, rounding_mode="floor"), at % v


@model(x="float[b=2,t=14,8]", lengths="lengths[b]<t", most=40)
class PackedGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, h = self.gru(packed)
        out, n = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return out.sum(1) / n.unsqueeze(1).to(out.dtype), h


@model(feats="float[b=2,4,h=9,w=11]", most=30)
def anchors_grid(feats):
    stride = 8
    h, w = feats.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    base = []
    for r in (0.5, 1.0, 2.0):
        for s in (16, 32):
            ww, hh = s * math.sqrt(r), s / math.sqrt(r)
            base.append([-ww / 2, -hh / 2, ww / 2, hh / 2])
    base = torch.tensor(base)
    shifts = torch.stack([xs, ys, xs, ys], -1).reshape(-1, 1, 4) * stride
    a = (shifts + base).reshape(-1, 4)
    return a.clamp(min=0, max=feats.shape[-1] * stride)


@model(p3="float[b=2,4,h=16,w=16]", most=32)
class FPNLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(4, 4, 3, 2, 1) for _ in range(3)])
        self.lat = nn.ModuleDict({f"l{i}": nn.Conv2d(4, 4, 1) for i in range(4)})

    def forward(self, p3):
        feats = OrderedDict()
        x = p3
        feats["l0"] = x
        for i, d in enumerate(self.down, 1):
            x = F.relu(d(x))
            feats[f"l{i}"] = x
        last, outs = None, OrderedDict()
        for name, f in reversed(feats.items()):
            f = self.lat[name](f)
            if last is not None:
                f = f + F.interpolate(last, size=f.shape[-2:], mode="nearest")
            last = f
            outs[name] = f
        return dict(reversed(outs.items()))


@model(x="float[b=2,n=30,3]", most=60)
def fps(x):
    """Farthest point sampling of 4 points."""
    b, n, _ = x.shape
    at = torch.zeros(b, dtype=torch.long)
    dist = torch.full((b, n), 1e10)
    picked = []
    for _ in range(4):
        picked.append(at)
        c = x[torch.arange(b), at].unsqueeze(1)
        dist = torch.minimum(dist, ((x - c) ** 2).sum(-1))
        at = dist.argmax(-1)
    return torch.stack(picked, 1)


@model(x="float[b=2,n=30,3]", most=60)
def ball_query(x):
    b, n, _ = x.shape
    k = min(5, n)
    d = torch.cdist(x, x)
    idx = torch.arange(n).view(1, 1, n).repeat(b, n, 1)
    idx[d > 1.0] = n
    idx = idx.sort(-1)[0][:, :, :k]
    first = idx[:, :, :1].expand(-1, -1, k)
    return torch.where(idx == n, first, idx)


@model(x="float[b=2,n=24,3]", most=60)
class EdgeConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Conv2d(6, 8, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2)
        )
        self.eval()

    def forward(self, x):
        x = x.transpose(2, 1)
        b, c, n = x.size()
        k = 4 if n >= 4 else n
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = (x**2).sum(1, keepdim=True)
        idx = (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]
        base = torch.arange(0, b).view(-1, 1, 1) * n
        idx = (idx + base).view(-1)
        f = x.transpose(2, 1).contiguous().view(b * n, -1)[idx, :].view(b, n, k, c)
        xr = x.transpose(2, 1).contiguous().view(b, n, 1, c).repeat(1, 1, k, 1)
        f = torch.cat((f - xr, xr), dim=3).permute(0, 3, 1, 2)
        return self.mlp(f).max(dim=-1)[0]


@model(o="float[r=5,3]", d="float[r,3]", most=40)
def nerf_sample(o, d):
    n = 8
    t = torch.linspace(0.1, 4, n).expand(o.shape[0], n)
    mids = 0.5 * (t[..., 1:] + t[..., :-1])
    up, lo = torch.cat([mids, t[..., -1:]], -1), torch.cat([t[..., :1], mids], -1)
    pts = o[..., None, :] + d[..., None, :] * (lo + (up - lo) * 0.5)[..., :, None]
    sigma = pts.norm(dim=-1)
    dists = torch.cat([t[..., 1:] - t[..., :-1], torch.tensor([1e10]).expand(t[..., :1].shape)], -1)
    alpha = 1 - torch.exp(-F.relu(sigma - 1) * dists * d[..., None, :].norm(dim=-1))
    trans = torch.cumprod(torch.cat([torch.ones((alpha.shape[0], 1)), 1 - alpha + 1e-10], -1), -1)[
        :, :-1
    ]
    return (alpha * trans).sum(-1)


@model(x="float[b=2,c=3,t=40]", most=90)
def spectrogram_pool(x):
    n_fft, hop = 16, 8
    b, c, t = x.shape
    w = torch.hann_window(n_fft)
    s = torch.stft(
        x.reshape(-1, t),
        n_fft,
        hop,
        window=w,
        return_complex=True,
        center=True,
        pad_mode="constant",
    )
    p = s.abs().pow(2).view(b, c, s.shape[-2], s.shape[-1])
    return torch.log1p(p).mean(-1)


@model(x="float[b=2,t=40]", most=90)
def frames_energy(x):
    f = x.unfold(-1, 8, 4)
    return (f * torch.hamming_window(8, periodic=False)).pow(2).sum(-1).clamp_min(1e-8).log()


@model(x="float[b=2,t=20,4]", most=50)
def zscore_rolling(x):
    """A running mean and variance, by cumulative sums."""
    n = torch.arange(1, x.shape[1] + 1, dtype=x.dtype).view(1, -1, 1)
    m = x.cumsum(1) / n
    v = (x.pow(2).cumsum(1) / n - m**2).clamp(min=0)
    return (x - m) / (v + 1e-3).sqrt()


@model(x="float[b=2,t=20,4]", most=50)
def ema_loop(x):
    a = 0.3
    y = x[:, 0]
    out = [y]
    for t in range(1, x.size(1)):
        y = a * x[:, t] + (1 - a) * y
        out.append(y)
    return torch.stack(out, dim=1)


@model(x="float[b=2,t=20,4]", most=50)
def ema_accumulate(x):
    steps = itertools.accumulate(x.unbind(1), lambda a, b: 0.5 * a + 0.5 * b)
    return torch.stack(list(steps), 1)


@model(x="float[b=2,t=20,4]", most=50)
def reduce_lambda(x):
    return functools.reduce(lambda a, b: torch.tanh(a) + b, x.unbind(1))


@model(x="float[b=2,t=20,4]", most=50)
def pairwise_differences(x):
    rows = x.unbind(1)
    return torch.stack([b - a for a, b in zip(rows[:-1], rows[1:])] + [rows[0]], 1)


@model(x="float[n=9,4]", most=40)
def itertools_pairs(x):
    return (
        torch.stack([(x[i] * x[j]).sum() for i, j in itertools.combinations(range(len(x)), 2)])
        if len(x) > 1
        else x.sum().view(1)
    )


@model(x="float[b=2,4,h=16,w=20]", most=40)
def multi_scale_crops(x):
    h, w = x.shape[2:]
    ch, cw = int(h * 0.75), int(w * 0.75)
    tl, tr = x[..., :ch, :cw], x[..., :ch, w - cw :]
    bl, br = x[..., h - ch :, :cw], x[..., h - ch :, w - cw :]
    top, left = (h - ch) // 2, (w - cw) // 2
    c = x[..., top : top + ch, left : left + cw]
    return torch.stack([tl, tr, bl, br, c])


@model(x="float[b=1,3,h=40,w=30]", most=70)
def letterbox(x):
    h, w = x.shape[2:]
    r = min(32 / h, 32 / w)
    nh, nw = int(round(h * r)), int(round(w * r))
    y = F.interpolate(x, size=(nh, nw), mode="bilinear", align_corners=False)
    dw, dh = 32 - nw, 32 - nh
    return F.pad(y, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2), value=0.5)


@model(x="float[b=1,3,h=40,w=30]", most=70)
def resize_shorter(x):
    h, w = x.shape[-2:]
    if h < w:
        nh, nw = 16, int(16 * w / h)
    else:
        nh, nw = int(16 * h / w), 16
    return F.interpolate(x, (nh, nw), mode="bilinear", align_corners=False).mean((2, 3))


@model(x="float[b=1,3,h=20,w=24]", most=40)
def resize_to_multiple(x):
    h, w = x.shape[-2:]
    nh, nw = round(h / 8) * 8 or 8, round(w / 8) * 8 or 8
    y = F.interpolate(x, size=(nh, nw), mode="bicubic", align_corners=True)
    z = F.avg_pool2d(y, 8)
    return F.interpolate(z, size=(h, w), mode="nearest") + x


@model(x="float[b=2,4,h=12,w=12]", flow="float[b,2,h,w]", most=30)
def warp(x, flow):
    b, _, h, w = x.shape
    yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((xx, yy), 0).float().unsqueeze(0).expand(b, -1, -1, -1) + flow
    gx = 2.0 * grid[:, 0] / max(w - 1, 1) - 1
    gy = 2.0 * grid[:, 1] / max(h - 1, 1) - 1
    out = F.grid_sample(x, torch.stack((gx, gy), -1), padding_mode="border", align_corners=True)
    return out


@model(a="float[b=2,4,h=10,w=12]", b="float[b,4,h,w]", most=30)
def cost_volume(a, b):
    """Correlation of shifted pictures."""
    r = 2
    p = F.pad(b, (r, r, r, r))
    h, w = a.shape[2:]
    out = []
    for dy in range(2 * r + 1):
        for dx in range(2 * r + 1):
            out.append((a * p[:, :, dy : dy + h, dx : dx + w]).mean(1, keepdim=True))
    return torch.cat(out, 1)


@model(x="float[b=2,n=10,8]", keep="bool[b,n]", most=40)
def masked_mean_max(x, keep):
    m = keep.unsqueeze(-1)
    mean = (x * m).sum(1) / m.sum(1).clamp(min=1)
    mx = x.masked_fill(~m, float("-inf")).amax(1)
    mx = torch.where(keep.any(1, keepdim=True), mx, torch.zeros_like(mx))
    return torch.cat([mean, mx], -1)


@model(x="float[n=10,8]", batch="int[n]<5", most=40)
def global_pool(x, batch):
    size = int(batch.max()) + 1
    s = x.new_zeros(size, 8).index_add_(0, batch, x)
    c = torch.bincount(batch, minlength=size).clamp(min=1)
    return s / c.unsqueeze(-1)


@model(x="float[n=10,8]", src="int[e=20]<n", dst="int[e]<n", most=40)
class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(8, 8, bias=False)
        self.a = nn.Parameter(torch.randn(16))

    def forward(self, x, src, dst):
        n = x.size(0)
        h = self.w(x)
        e = F.leaky_relu((torch.cat([h[src], h[dst]], -1) * self.a).sum(-1), 0.2)
        m = torch.full((n,), -1e9).scatter_reduce(0, dst, e, "amax", include_self=True)
        ex = (e - m[dst]).exp()
        z = torch.zeros(n).scatter_add(0, dst, ex)
        alpha = ex / (z[dst] + 1e-16)
        return torch.zeros(n, 8).index_add(0, dst, alpha.unsqueeze(-1) * h[src])


Out = namedtuple("Out", ["logits", "hidden"])


class Typed(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor | None = None


@dataclasses.dataclass
class Config:
    hidden: int = 8
    layers: int = 2
    act: str = "gelu"
    norm_first: bool = True


@model(x="float[b=2,n=10,8]", most=40)
class ConfigBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.cfg = Config()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"n": nn.LayerNorm(8), "f": nn.Linear(8, 8)})
            for _ in range(self.cfg.layers)
        )

    def forward(self, x):
        act = {"gelu": F.gelu, "relu": F.relu}[self.cfg.act]
        hidden = ()
        for layer in self.layers:
            hidden += (x,)
            x = (
                x + layer["f"](act(layer["n"](x)))
                if self.cfg.norm_first
                else layer["n"](x + act(layer["f"](x)))
            )
        return Out(logits=x, hidden=hidden)


@model(x="float[b=2,n=10,8]", most=40)
class Router(nn.Module):
    """A mixture of experts, token by token as in Mixtral."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        x = x.view(-1, d)
        w, idx = self.gate(x).softmax(-1).topk(2, -1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        mask = F.one_hot(idx, 4).permute(2, 1, 0)
        for e, expert in enumerate(self.experts):
            k, rows = torch.where(mask[e])
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * w[rows, k, None])
        return out.view(b, n, d)


@model(x="float[b=2,n=10,8]", most=40)
class SwitchCapacity(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.w = nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x):
        b, n, d = x.shape
        t = x.reshape(-1, d)
        cap = max(4, math.ceil(t.shape[0] / 4 * 1.25))
        p, e = self.gate(t).softmax(-1).max(-1)
        onehot = F.one_hot(e, 4)
        pos = (onehot.cumsum(0) - 1).gather(1, e[:, None]).squeeze(1)
        ok = pos < cap
        y = torch.bmm(t.unsqueeze(1), self.w[e]).squeeze(1) * p.unsqueeze(1)
        return torch.where(ok[:, None], y, t).reshape(b, n, d)


@model(x="float[b=2,4,h=8,w=8]", t="int[b]<1000", most=24)
class TimeUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 8, 3, padding=1)
        self.emb = nn.Linear(16, 16)
        self.norm = nn.GroupNorm(4, 8)
        self.out = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x, t):
        half = 8
        f = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        a = t[:, None].float() * f[None]
        e = torch.cat([a.cos(), a.sin()], -1)
        scale, shift = self.emb(F.silu(e)).chunk(2, -1)
        h = self.norm(self.c(x)) * (1 + scale[..., None, None]) + shift[..., None, None]
        return self.out(F.silu(h))


@model(x="float[b=2,n=13,8]", most=40)
def pad_to_block(x):
    """Block-local attention with padding (Longformer style)."""
    block = 4
    b, n, d = x.shape
    pad = -n % block
    y = F.pad(x, (0, 0, 0, pad))
    mask = torch.arange(n + pad) >= n
    blocks = y.view(b, -1, block, d)
    m = mask.view(1, -1, 1, block)
    s = (blocks @ blocks.transpose(-1, -2)).masked_fill(m, -1e9)
    return (s.softmax(-1) @ blocks).flatten(1, 2)[:, :n]


@model(x="float[b=2,n=13,8]", most=40)
def relative_skew(x):
    """Music transformer's skewing of relative logits."""
    b, n, d = x.shape
    rel = x @ torch.linspace(-1, 1, d * 64).view(d, 64)[:, -n:]
    p = F.pad(rel, (1, 0))
    return p.view(b, n + 1, n)[:, 1:].tril()


@model(ids="int[b=2,n=9]<30", most=40)
class T5Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 3)

    def forward(self, ids):
        n = ids.shape[1]
        rel = torch.arange(n)[None] - torch.arange(n)[:, None]
        num, mx = 4, 16
        ret = (rel > 0).long() * num
        rp = rel.abs()
        big = 2 + (torch.log(rp.float() / 2) / math.log(mx / 2) * 2).to(torch.long)
        big = torch.min(big, torch.full_like(big, num - 1))
        ret = ret + torch.where(rp < 2, rp, big)
        return self.emb(ret).permute(2, 0, 1).unsqueeze(0) + ids.float()[:, None, None]


@model(x="float[b=2,n=12,6]", most=40)
def topk_scatter(x):
    """Keep the ten percent largest."""
    flat = x.flatten(1)
    k = max(1, int(0.1 * flat.shape[1]))
    v, i = flat.topk(k, dim=1)
    return torch.zeros_like(flat).scatter_(1, i, v).view_as(x)


@model(x="float[b=2,n=12,6]", most=40)
def quantile_clip(x):
    lo, hi = (
        torch.quantile(x, 0.1, dim=1, keepdim=True),
        torch.quantile(x, 0.9, dim=1, keepdim=True),
    )
    return x.clamp(lo, hi)


@model(x="float[n=12,6]", most=40)
def pca_project(x):
    c = x - x.mean(0)
    cov = c.T @ c / max(x.shape[0] - 1, 1)
    return cov.diagonal(), torch.trace(cov)


@model(x="float[b=2,n=12]", most=40)
def autocorrelation(x):
    n = x.shape[-1]
    f = torch.fft.rfft(x, n=2 * n)
    return torch.fft.irfft(f * f.conj(), n=2 * n)[..., :n] / n


@model(x="float[b=2,n=12,4]", most=40)
def autoformer(x):
    """Series decomposition and aggregation of the most correlated delays."""
    b, n, d = x.shape
    q = torch.fft.rfft(x, dim=1)
    corr = torch.fft.irfft(q * torch.conj(q), n=n, dim=1).mean(-1)
    k = max(1, int(math.log(n)))
    w, delay = torch.topk(corr, k, dim=-1)
    w = w.softmax(-1)
    twice = x.repeat(1, 2, 1)
    idx = torch.arange(n)[None, :, None].expand(b, n, d)
    out = torch.zeros_like(x)
    for i in range(k):
        out = out + twice.gather(1, idx + delay[:, i].view(b, 1, 1)) * w[:, i].view(b, 1, 1)
    return out


@model(x="float[b=2,n=20,4]", most=60)
def moving_average(x):
    k = 5
    front = x[:, :1].repeat(1, (k - 1) // 2, 1)
    end = x[:, -1:].repeat(1, (k - 1) // 2, 1)
    y = torch.cat([front, x, end], 1).permute(0, 2, 1)
    return F.avg_pool1d(y, k, 1).permute(0, 2, 1)


@model(x="float[b=2,n=25,4]", most=60)
def patch_time(x):
    """PatchTST: the end is repeated, then unfolded."""
    z = x.permute(0, 2, 1)
    z = F.pad(z, (0, 4), mode="replicate")
    z = z.unfold(-1, 8, 4) if z.shape[-1] >= 8 else z.unsqueeze(-2)
    return z.mean(-1)


@model(x="float[b=2,n=10,8]", most=30)
class Cache(nn.Module):
    """An incremental decoder that runs over all steps itself."""

    def __init__(self):
        super().__init__()
        self.kv = nn.Linear(8, 16)

    def forward(self, x):
        ks, vs, outs = [], [], []
        for t in range(x.shape[1]):
            k, v = self.kv(x[:, t]).chunk(2, -1)
            ks.append(k)
            vs.append(v)
            K, V = torch.stack(ks, 1), torch.stack(vs, 1)
            a = torch.einsum("bd,btd->bt", x[:, t], K).softmax(-1)
            outs.append(torch.einsum("bt,btd->bd", a, V))
        return torch.stack(outs, 1)


@model(x="float[n=10,4]", most=40)
def median_of_three(x):
    out = x.clone()
    for i in range(1, len(x) - 1):
        out[i] = x[i - 1 : i + 2].median(0).values
    return out


@model(x="float[n=10,4]", most=40)
def game_of_rows(x):
    y = x.clone()
    n = y.shape[0]
    for i in range(n):
        y[i] = y[i] + 0.1 * (y[(i - 1) % n] + y[(i + 1) % n])
    return y


@model(x="float[n=10,4]", most=40)
def while_halving(x):
    n = x.shape[0]
    while n > 1:
        half = (n + 1) // 2
        x = (
            torch.cat([x[: n - half] + x[half:n], x[n - half : half]])
            if n % 2
            else x[:half] + x[half:n]
        )
        n = half
    return x[0]


@model(x="float[n=10,4]", most=40)
def enumerate_weights(x):
    total = x.new_zeros(4)
    for i, row in enumerate(x, start=1):
        total = total + row / i
    return total


@model(x="float[n=10,4]", most=40)
def discounted_returns(x):
    g, out = torch.zeros(4), []
    for r in reversed(x):
        g = r + 0.9 * g
        out.insert(0, g)
    return torch.stack(out)


@model(x="float[n=10,4]", y="float[m=7,4]", most=24)
def dtw(x, y):
    d = torch.cdist(x[None], y[None])[0]
    n, m = d.shape
    prev = torch.cat([torch.zeros(1), torch.full((m,), float("inf"))])
    for i in range(n):
        cur = [torch.tensor(float("inf"))]
        for j in range(m):
            cur.append(d[i, j] + torch.min(torch.stack([prev[j], prev[j + 1], cur[-1]])))
        prev = torch.stack(cur)
    return prev[-1]


@model(x="float[n=10,5]", t="float[5,5]", most=40)
def viterbi(x, t):
    score = x[0]
    back = []
    for i in range(1, x.shape[0]):
        s = score[:, None] + t + x[i][None]
        score, at = s.max(0)
        back.append(at)
    last = score.argmax()
    path = [last]
    for at in reversed(back):
        last = at[last]
        path.append(last)
    path.reverse()
    return torch.stack(path)


@model(x="float[b=2,n=10,5]", mask="bool[b,n]", t="float[5,5]", most=40)
def crf_forward(x, mask, t):
    alpha = x[:, 0]
    for i in range(1, x.shape[1]):
        new = torch.logsumexp(alpha[:, :, None] + t[None] + x[:, i, None], 1)
        alpha = torch.where(mask[:, i, None], new, alpha)
    return alpha.logsumexp(-1)


@model(x="float[b=2,n=12,6]", most=40)
class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.LayerNorm(6)
        self.p1 = nn.Conv1d(6, 12, 1)
        self.dw = nn.Conv1d(6, 6, 5, padding="same", groups=6)
        self.bn = nn.BatchNorm1d(6)
        self.eval()

    def forward(self, x):
        y = self.n(x).transpose(1, 2)
        y = F.glu(self.p1(y), 1)
        y = F.silu(self.bn(self.dw(y)))
        return x + y.transpose(1, 2)


@model(x="float[b=2,n=21,6]", most=60)
class Subsample(nn.Module):
    """Whisper-like front end with lengths."""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(6, 6, 3, 2), nn.Conv1d(6, 6, 3, 2)])

    def forward(self, x):
        n = x.shape[1]
        y = x.transpose(1, 2)
        if n < 7:
            y = F.pad(y, (0, 7 - n))
        for c in self.c:
            y = F.gelu(c(y))
            n = (max(n, 7) - 1) // 2 if n else 0
        pos = torch.arange(y.shape[-1]) / y.shape[-1]
        return y + pos


@model(x="float[b=4,8]", most=40)
class MemoDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        b = x.shape[0]
        if b not in self.cache:
            self.cache[b] = torch.eye(b)
        return self.cache[b] @ x


@functools.cache
def _hann(n):
    return torch.hann_window(n)


@model(x="float[b=2,n=16]", most=40)
def lru_window(x):
    return x * _hann(x.shape[-1])


@model(x="float[b=2,n=16]", most=40)
def fstring_error(x):
    if x.ndim != 2:
        raise ValueError(f"expected 2 axes, got {x.ndim} ({tuple(x.shape)})")
    assert x.shape[1] >= 1, f"too short: {x.shape[1]}"
    return x.softmax(-1)


@model(x="float[b=2,n=16,4]", most=40)
def reshape_string(x):
    b, n, d = x.shape
    shape = {"seq": (b, -1), "flat": (b * n, d)}["seq" if d > 2 else "flat"]
    return x.reshape(*shape)


@model(x="float[b=2,3,h=13,w=17]", most=30)
class PatchEmbed(nn.Module):
    """Interpolated position embeddings as in DINOv2."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, 8, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 17, 8))

    def forward(self, x):
        b, _, h, w = x.shape
        x = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
        y = self.proj(x)
        gh, gw = y.shape[-2:]
        y = y.flatten(2).transpose(1, 2)
        n = y.shape[1]
        if n == 16 and gh == gw:
            pos = self.pos
        else:
            p = self.pos[:, 1:].reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
            p = F.interpolate(p, size=(gh, gw), mode="bicubic", antialias=False)
            pos = torch.cat([self.pos[:, :1], p.permute(0, 2, 3, 1).view(1, -1, 8)], 1)
        cls = torch.zeros(b, 1, 8)
        return torch.cat([cls, y], 1) + pos


@model(q="float[b=2,n=6,8]", k="float[b,m=9,8]", most=24)
class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, q, k):
        out, w = self.a(q, k, k, need_weights=True, average_attn_weights=False)
        return out, w.mean(1)


@model(boxes="boxes[n=12]", scores="uniform[n]", most=40)
def soft_nms_once(boxes, scores):
    order = scores.argsort(descending=True)
    b = boxes[order]
    area = (b[:, 2] - b[:, 0]).clamp(min=0) * (b[:, 3] - b[:, 1]).clamp(min=0)
    lt, rb = torch.max(b[:, None, :2], b[None, :, :2]), torch.min(b[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    iou = (inter / (area[:, None] + area[None] - inter + 1e-6)).triu(1)
    comp = iou.max(0).values
    decay = torch.exp(-(iou**2 - comp[:, None] ** 2) / 0.5).min(0).values
    return scores[order] * decay


@model(boxes="boxes[n=12]", scores="uniform[n]", most=40)
def greedy_nms(boxes, scores):
    order = scores.argsort(descending=True)
    keep = []
    suppressed = torch.zeros(len(boxes), dtype=torch.bool)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in order:
        if suppressed[i]:
            continue
        keep.append(i)
        lt = torch.max(boxes[i, :2], boxes[:, :2])
        rb = torch.min(boxes[i, 2:], boxes[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[:, 0] * wh[:, 1]
        suppressed = suppressed | (inter / (area[i] + area - inter) > 0.5)
    return torch.stack(keep)


@model(heat="float[b=2,3,h=12,w=14]", most=24)
def centernet_decode(heat):
    b, c, h, w = heat.shape
    heat = heat.sigmoid()
    peak = (F.max_pool2d(heat, 3, 1, 1) == heat).float() * heat
    k = min(10, h * w)
    s, i = peak.view(b, c, -1).topk(k)
    y, x = (i / w).floor(), (i % w).float()
    s2, j = s.view(b, -1).topk(k)
    cls = j // k
    return s2, cls, x.view(b, -1).gather(1, j), y.view(b, -1).gather(1, j)


@model(x="float[b=2,c=6,n=10]", most=24)
class ChannelShuffle(nn.Module):
    def forward(self, x):
        b, c, n = x.shape
        g = 2 if c % 2 == 0 else 1
        return x.view(b, g, c // g, n).transpose(1, 2).contiguous().view(b, c, n)


@model(x="float[b=2,n=10,4]", lens="lengths[b]<n", most=30)
def unpad_list(x, lens):
    """Rows without padding, end to end, as ragged batches are kept."""
    return torch.cat([row[: int(k)] for row, k in zip(x, lens)])


@model(x="float[b=2,n=10,4]", lens="lengths[b]<n", most=30)
def reverse_each(x, lens):
    n = x.shape[1]
    i = torch.arange(n).expand(x.shape[0], n)
    j = lens[:, None] - 1 - i
    j = torch.where(j >= 0, j, i)
    return x.gather(1, j[..., None].expand_as(x))


@model(x="float[n=10,4]", most=40)
def generator_rows(x):
    def rows():
        for i in range(0, x.shape[0], 2):
            yield x[i : i + 2].sum(0)

    return torch.stack(list(rows()))


@model(x="float[n=10,4]", most=40)
def dict_of_rows(x):
    d = {2 * i: row for i, row in enumerate(x)}
    return torch.stack([d[k] for k in sorted(d, reverse=True)])


@model(x="float[n=10,4]", most=40)
def np_interp(x):
    n = x.shape[0]
    w = np.interp(np.linspace(0, 1, n), [0, 0.5, 1], [0.0, 1.0, 0.0]).astype(np.float32)
    return x * torch.from_numpy(w)[:, None]


@model(x="float[n=10,4]", most=40)
def np_window(x):
    return x * torch.tensor(np.hanning(x.shape[0]), dtype=x.dtype)[:, None]


@model(x="float[n=10,4]", most=40)
def sinusoid_np(x):
    n, d = x.shape
    pos = np.arange(n)[:, None]
    div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    pe = np.zeros((n, d))
    pe[:, 0::2] = np.sin(pos * div)
    pe[:, 1::2] = np.cos(pos * div)
    return x + torch.from_numpy(pe).float()
