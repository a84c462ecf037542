"""Pictures, videos, points and boxes, as projects write them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[b,t,3,8,8]")
class TemporalShift(nn.Module):
    """Frames fold into the batch, and channels move between neighbours."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        b, t, c, h, w = x.size()
        y = self.conv(x.view(b * t, c, h, w))
        y = y.view(b, t, *y.shape[1:])
        out = torch.zeros_like(y)
        fold = y.size(2) // 4
        out[:, :-1, :fold] = y[:, 1:, :fold]
        out[:, 1:, fold : 2 * fold] = y[:, :-1, fold : 2 * fold]
        out[:, :, 2 * fold :] = y[:, :, 2 * fold :]
        return out.mean((-2, -1))


@model(x="float[b,3,t=8,8,8]")
class SlowFast(nn.Module):
    """Every fourth frame goes a path of its own."""

    def __init__(self):
        super().__init__()
        self.slow = nn.Conv3d(3, 8, (1, 3, 3), padding=(0, 1, 1))
        self.fast = nn.Conv3d(3, 4, (3, 3, 3), padding=1)
        self.lateral = nn.Conv3d(4, 8, (5, 1, 1), stride=(4, 1, 1), padding=(2, 0, 0))

    def forward(self, x):
        slow = self.slow(x[:, :, ::4])
        fast = self.fast(x)
        merged = torch.cat([slow, self.lateral(fast)], 1)
        return torch.cat([merged.mean((2, 3, 4)), fast.amax((2, 3, 4))], -1)


@model(x="float[b,t,3,8,8]")
def frames_sampled_evenly(x):
    """Eight frames of any number, as clips are sampled."""
    t = x.shape[1]
    at = torch.linspace(0, t - 1, 8).round().long()
    return x.index_select(1, at).mean((-1, -2))


@model(x="float[b,n=9,3]", most=60)
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.transform = nn.Linear(3, 9)
        self.mlp = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Conv1d(32, 5, 1)

    def forward(self, x):
        b, n, _ = x.shape
        turn = self.transform(x.amax(1)).view(b, 3, 3) + torch.eye(3)
        y = self.mlp(torch.bmm(x, turn).transpose(1, 2))
        whole = y.max(-1, keepdim=True)[0].repeat(1, 1, n)
        return self.head(torch.cat([y, whole], 1)).transpose(1, 2).log_softmax(-1)


@model(x="float[b,n=9,3]", most=40, ties=False)
def farthest_points(x):
    """Four points, each the farthest from those that were chosen."""
    b, n, _ = x.shape
    chosen = torch.zeros(b, 4, dtype=torch.long)
    distance = torch.full((b, n), 1e10)
    farthest = torch.zeros(b, dtype=torch.long)
    batch = torch.arange(b)
    for i in range(4):
        chosen[:, i] = farthest
        centroid = x[batch, farthest, :].view(b, 1, 3)
        distance = torch.minimum(distance, ((x - centroid) ** 2).sum(-1))
        farthest = distance.max(-1)[1]
    return x[batch[:, None], chosen]


@model(x="float[b,n=9,3]", most=40, ties=False)
class EdgeConv(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.k = k
        self.conv = nn.Sequential(nn.Conv2d(6, 8, 1, bias=False), nn.LeakyReLU(0.2))

    def forward(self, points):
        x = points.transpose(2, 1)
        b, d, n = x.size()
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = torch.sum(x**2, dim=1, keepdim=True)
        near = (-xx - inner - xx.transpose(2, 1)).topk(k=min(self.k, n), dim=-1)[1]
        k = near.size(-1)
        base = torch.arange(0, b).view(-1, 1, 1) * n
        flat = (near + base).view(-1)
        feature = x.transpose(2, 1).reshape(b * n, -1)[flat, :].view(b, n, k, d)
        x = points.view(b, n, 1, d).repeat(1, 1, k, 1)
        return self.conv(torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2)).max(-1)[0]


def window_partition(x, size):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, c)


def window_reverse(windows, size, h, w):
    b = int(windows.shape[0] / (h * w / size / size))
    x = windows.view(b, h // size, w // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)


@model(x="float[b=2,h=9,w=7,8]", most=40)
class SwinBlock(nn.Module):
    """Windows that are padded, shifted and masked as in detection backbones."""

    def __init__(self, size=4, shift=2):
        super().__init__()
        self.size, self.shift = size, shift
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)

    def mask(self, h, w):
        img = torch.zeros((1, h, w, 1))
        parts = (slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None))
        count = 0
        for rows in parts:
            for columns in parts:
                img[:, rows, columns, :] = count
                count += 1
        windows = window_partition(img, self.size).view(-1, self.size * self.size)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        return mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)

    def forward(self, x):
        b, h, w, c = x.shape
        shortcut = x
        x = self.norm(x)
        right = (self.size - w % self.size) % self.size
        bottom = (self.size - h % self.size) % self.size
        x = F.pad(x, (0, 0, 0, right, 0, bottom))
        _, hp, wp, _ = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        windows = window_partition(x, self.size).view(-1, self.size * self.size, c)
        q, k, v = self.qkv(windows).chunk(3, -1)
        attn = q @ k.transpose(-2, -1) / math.sqrt(c)
        mask = self.mask(hp, wp)
        number = mask.shape[0]
        attn = attn.view(attn.shape[0] // number, number, *attn.shape[1:]) + mask.unsqueeze(0)
        attn = attn.view(-1, *attn.shape[2:]).softmax(-1)
        y = window_reverse(self.proj(attn @ v).view(-1, self.size, self.size, c), self.size, hp, wp)
        y = torch.roll(y, (self.shift, self.shift), (1, 2))
        if right > 0 or bottom > 0:
            y = y[:, :h, :w, :].contiguous()
        return shortcut + y


@model(x="float[b=2,n=20,8]", hw="float[h=5,w=4]", most=20)
def merged_patches(x, hw):
    """Odd rows and columns are padded before four neighbours become one."""
    h, w = hw.shape
    b, n, c = x.shape
    if n != h * w:
        x = x[:, :1].expand(b, h * w, c)
    x = x.view(b, h, w, c)
    if h % 2 == 1 or w % 2 == 1:
        x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
    parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
    return torch.cat(parts, -1).view(b, -1, 4 * c)


@model(x="float[b=2,3,h=16,w=24]", most=64)
class VisionTransformer(nn.Module):
    """Positions that are interpolated to the picture, in DINO's way."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos = nn.Parameter(torch.randn(1, 17, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def positions(self, x, w, h):
        npatch = x.shape[1] - 1
        n = self.pos.shape[1] - 1
        if npatch == n and w == h:
            return self.pos
        cls, patches = self.pos[:, 0], self.pos[:, 1:]
        w0, h0 = w // 4 + 0.1, h // 4 + 0.1
        side = int(math.sqrt(n))
        patches = F.interpolate(
            patches.reshape(1, side, side, 8).permute(0, 3, 1, 2),
            scale_factor=(w0 / math.sqrt(n), h0 / math.sqrt(n)),
            mode="bicubic",
        )
        assert int(w0) == patches.shape[-2] and int(h0) == patches.shape[-1]
        patches = patches.permute(0, 2, 3, 1).view(1, -1, 8)
        return torch.cat((cls.unsqueeze(0), patches), 1)

    def forward(self, x):
        b, _, w, h = x.shape
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(b, -1, -1), x), 1)
        return self.block(x + self.positions(x, w, h))[:, 0]


@model(x="float[b=2,4,h,w]", most=40)
class DeformableSampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Conv2d(4, 2, 3, padding=1)
        self.value = nn.Conv2d(4, 4, 1)

    @staticmethod
    def reference(h, w):
        y, x = torch.meshgrid(
            torch.linspace(0.5, h - 0.5, h), torch.linspace(0.5, w - 0.5, w), indexing="ij"
        )
        return torch.stack((x / w, y / h), -1)[None]

    def forward(self, x):
        h, w = x.shape[-2:]
        shift = self.offset(x).permute(0, 2, 3, 1).tanh() / torch.tensor([w, h])
        grid = 2 * (self.reference(h, w) + shift) - 1
        return F.grid_sample(self.value(x), grid, align_corners=False)


@model(boxes="boxes[n=6]", scores="uniform[n=6]", most=40, ties=False)
def suppressed(boxes, scores):
    """Boxes that overlap a better one are dropped, in a loop over the rest."""
    order = scores.argsort(descending=True)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    keep = []
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        tl = torch.maximum(boxes[i, :2], boxes[rest, :2])
        br = torch.minimum(boxes[i, 2:], boxes[rest, 2:])
        inter = (br - tl).clamp(min=0).prod(-1)
        iou = inter / (area[i] + area[rest] - inter + 1e-6)
        order = rest[iou <= 0.5]
    return boxes[torch.stack(keep)]


@dataclasses.dataclass
class Level:
    stride: int
    scale: float

    @property
    def side(self) -> float:
        return self.stride * self.scale


@model(x="float[b=2,3,h=16,w=16]", most=64)
class AnchorFree(nn.Module):
    """Points of three levels, cached by their sizes."""

    levels = (Level(4, 1.0), Level(8, 1.5))

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 4, 1)
        self.down = nn.Conv2d(8, 8, 3, 2, 1)
        self.box = nn.Conv2d(8, 4, 1)
        self.cls = nn.Conv2d(8, 3, 1)
        self._cache = {}

    @classmethod
    def points(cls, feature, level):
        h, w = feature.shape[-2:]
        y = (torch.arange(h) + 0.5) * level.stride
        x = (torch.arange(w) + 0.5) * level.stride
        yy, xx = torch.meshgrid(y, x, indexing="ij")
        return torch.stack([xx.reshape(-1), yy.reshape(-1)], -1)

    def forward(self, x):
        features = [self.stem(x)]
        features.append(self.down(features[0].relu()))
        boxes, scores = [], []
        for feature, level in zip(features, self.levels):
            key = (level.stride, tuple(feature.shape[-2:]))
            if key not in self._cache:
                self._cache[key] = self.points(feature, level)
            points = self._cache[key]
            box = self.box(feature).flatten(2).permute(0, 2, 1).sigmoid() * level.side
            boxes.append(torch.cat([points - box[..., :2], points + box[..., 2:]], -1))
            scores.append(self.cls(feature).flatten(2).permute(0, 2, 1).sigmoid())
        return {"boxes": torch.cat(boxes, 1), "scores": torch.cat(scores, 1)}


class Detections(NamedTuple):
    boxes: torch.Tensor
    scores: torch.Tensor
    labels: torch.Tensor


@model(boxes="boxes[n=12]", scores="uniform[n,5]", most=40, ties=False)
def best_by_class(boxes, scores):
    """The best boxes at most ten, as a named tuple."""
    k = min(10, scores.numel())
    best, at = scores.flatten().topk(k)
    return Detections(boxes[at // 5], best, at % 5)


@model(x="float[b=2,4,h=8,w=8]", most=40)
class PyramidPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 2, 1) for _ in range(3))
        self.sizes = (1, 2, 3)

    def forward(self, x):
        size = x.size()[2:]
        parts = [x]
        for conv, n in zip(self.convs, self.sizes):
            y = conv(F.adaptive_avg_pool2d(x, n))
            parts.append(F.interpolate(y, size=size, mode="bilinear", align_corners=True))
        return torch.cat(parts, 1)


@model(x="float[b=2,1,h=8,w=20]", most=64)
class TextLine(nn.Module):
    """A recognizer of text: columns of a picture become steps of a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.rnn = nn.LSTM(8, 6, bidirectional=True)
        self.out = nn.Linear(12, 10)

    def forward(self, x):
        y = self.conv(x).mean(2)
        y, _ = self.rnn(y.permute(2, 0, 1))
        t, b, c = y.size()
        return self.out(y.view(t * b, c)).view(t, b, -1).log_softmax(-1)


@model(x="float[t,10]", most=60, ties=False)
def greedy_text(x):
    """The best path: repeats are joined, and blanks are dropped."""
    best = x.argmax(-1)
    best = torch.unique_consecutive(best)
    return best[best != 0]


@model(x="float[b=2,3,h=10,w=14]", most=64)
class PaddedToMultiple(nn.Module):
    """A restorer of pictures: padded to a multiple of eight, and cropped."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 4, 4)
        self.up = nn.ConvTranspose2d(8, 3, 4, 4)

    def check_image_size(self, x):
        _, _, h, w = x.size()
        ph = (8 - h % 8) % 8
        pw = (8 - w % 8) % 8
        return F.pad(x, (0, pw, 0, ph), "replicate")

    def forward(self, x):
        h, w = x.shape[2:]
        y = self.up(self.down(self.check_image_size(x)).relu())
        return x + y[:, :, :h, :w]


@model(x="float[b=2,3,h=12,w=12]", most=48)
def tiles_blended(x):
    """Tiles of six by six with an overlap are added, and divided by their count."""
    _, _, h, w = x.shape
    size, stride = 6, 4
    total, weight = torch.zeros_like(x), torch.zeros_like(x[:, :1])
    rows = list(range(0, max(h - size, 0), stride)) + [max(h - size, 0)]
    columns = list(range(0, max(w - size, 0), stride)) + [max(w - size, 0)]
    for top, left in itertools.product(rows, columns):
        tile = x[:, :, top : top + size, left : left + size]
        total[:, :, top : top + size, left : left + size] += tile * 2
        weight[:, :, top : top + size, left : left + size] += 1
    return total / weight


@model(x="float[b=2,4,h=6,w=6]", most=32)
def cost_volume(x):
    """Correlation of a picture with itself at five shifts."""
    b, c, h, w = x.shape
    volume = x.new_zeros(b, 5, h, w)
    for i in range(5):
        if i > 0:
            volume[:, i, :, i:] = (x[:, :, :, i:] * x[:, :, :, :-i]).mean(1)
        else:
            volume[:, i] = (x * x).mean(1)
    return volume


@model(x="float[b=2,2,h=6,w=8]", most=40)
def warped_by_flow(x):
    """A picture sampled along a flow, in pixels."""
    b, c, h, w = x.size()
    xx = torch.arange(0, w).view(1, -1).repeat(h, 1).view(1, 1, h, w).repeat(b, 1, 1, 1)
    yy = torch.arange(0, h).view(-1, 1).repeat(1, w).view(1, 1, h, w).repeat(b, 1, 1, 1)
    grid = torch.cat((xx, yy), 1).float() + x.tanh()
    gx = 2.0 * grid[:, 0] / max(w - 1, 1) - 1.0
    gy = 2.0 * grid[:, 1] / max(h - 1, 1) - 1.0
    return F.grid_sample(x, torch.stack((gx, gy), -1), align_corners=True)


@model(x="float[b=2,3,h=32,w=32]", y="float[n,4]", most=64)
class RegionPooling(nn.Module):
    """Each region is sampled on a grid of its own."""

    def forward(self, x, y):
        centers = y.tanh()[:, :2]
        sides = y[:, 2:].sigmoid()
        ticks = torch.linspace(-1, 1, 4)
        gy, gx = torch.meshgrid(ticks, ticks, indexing="ij")
        base = torch.stack([gx, gy], -1)
        grid = centers[:, None, None] + sides[:, None, None] * base
        n = y.size(0)
        return F.grid_sample(x[:1].expand(n, -1, -1, -1), grid, align_corners=False)


@model(x="float[b=2,3,h=8,w=6]", most=40)
def pixels_normalized(x):
    return x / (x.pow(2).mean(1, keepdim=True) + 1e-8).sqrt()


@model(x="float[b=2,3,h%4=8,w%4=12]", most=40)
def tokens_of_patches(x):
    b, c, h, w = x.shape
    y = x.reshape(b, c, h // 4, 4, w // 4, 4)
    return y.permute(0, 2, 4, 3, 5, 1).reshape(b, (h // 4) * (w // 4), 16 * c)


@model(x="float[b,t,6]", most=60)
def frames_apart(x):
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:] - x[:, :-1]], 1)


@model(x="float[b=2,4,h=6,w=8]", most=40)
def places_beside_channels(x):
    b, _, h, w = x.shape
    y = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(b, 1, h, w)
    z = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(b, 1, h, w)
    return torch.cat([x, y, z], 1)
