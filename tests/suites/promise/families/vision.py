"""Convolutions, pooling and resizing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[b,3,h,w]", most=131)
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x)).relu().mean((2, 3))


@model(x="float[b,3,h,w]", most=131)
class Strided(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x).flatten(2).mean(-1)


@model(x="float[b,3,h,w]", most=131)
class SamePadding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 4, padding="same", dilation=2)

    def forward(self, x):
        return self.conv(x) + x[:, :2]


@model(x="float[b,3,h,w]", most=131)
class StaticSame(nn.Module):
    """Padding as TensorFlow's "SAME", computed in Python."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3, stride=2)

    def forward(self, x):
        h, w = x.shape[-2:]
        ph = max((-(-h // 2) - 1) * 2 + 3 - h, 0)
        pw = max((-(-w // 2) - 1) * 2 + 3 - w, 0)
        if ph > 0 or pw > 0:
            x = F.pad(x, [pw // 2, pw - pw // 2, ph // 2, ph - ph // 2])
        return self.conv(x)


@model(x="float[b,2,n]", most=257)
class CausalConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 3, padding=4, dilation=2)

    def forward(self, x):
        return self.conv(x)[..., : x.shape[-1]]


@model(x="float[b,2,h,w]", most=131)
class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(2, 3, 3, 2, padding=1, output_padding=1)

    def forward(self, x):
        return self.up(x)


@model(x="float[b,2,h,w]", most=131)
class TransposedToSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 2, 3, 2, 1), nn.ConvTranspose2d(2, 2, 3, 2, 1)

    def forward(self, x):
        return self.up(self.down(x), output_size=x.shape[-2:])


@model(x="float[b,2,h,w]", most=131)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up, self.out = (
            nn.Conv2d(2, 4, 3, 2, 1),
            nn.ConvTranspose2d(4, 2, 2, 2),
            nn.Conv2d(4, 1, 1),
        )

    def forward(self, x):
        y = self.up(self.down(x).relu())
        dh, dw = x.shape[2] - y.shape[2], x.shape[3] - y.shape[3]
        y = F.pad(y, [dw // 2, dw - dw // 2, dh // 2, dh - dh // 2])
        return self.out(torch.cat([x, y], 1))


@model(x="float[b,2,h,w]", most=131)
class UNetResized(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3, 2, 1)

    def forward(self, x):
        y = self.down(x)
        if y.shape[2:] != x.shape[2:]:
            y = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
        return x + y


@model(x="float[b,2,h,w]", most=131)
def max_pooled(x):
    return F.max_pool2d(x, 3, 2, 1)


@model(x="float[b,2,h,w]", most=131)
def max_pooled_ceil(x):
    return F.max_pool2d(x, 3, 2, ceil_mode=True)


@model(x="float[b,2,h,w]", most=131)
def average_pooled(x):
    return F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)


@model(x="float[b,2,h,w]", most=131)
def average_pooled_ceil(x):
    return F.avg_pool2d(x, 2, 2, ceil_mode=True)


@model(x="float[b,2,h,w]", most=131)
def pooled_to_one(x):
    return F.adaptive_avg_pool2d(x, 1).flatten(1), F.adaptive_max_pool2d(x, 1).flatten(1)


@model(x="float[b,2,h,w]", most=131)
def pooled_to_three(x):
    return F.adaptive_avg_pool2d(x, 3)


@model(x="float[b,2,h,w]", most=131)
def pooled_to_max_three(x):
    return F.adaptive_max_pool2d(x, (3, 2))


@model(x="float[b,2,h,w]", most=131)
def pooled_over_whole(x):
    return F.avg_pool2d(x, x.shape[2:])


@model(x="float[b,2,h,w]", most=64)
def twice_nearest(x):
    return F.interpolate(x, scale_factor=2)


@model(x="float[b,2,h,w]", most=64)
def half_bilinear(x):
    return F.interpolate(x, scale_factor=0.5, mode="bilinear")


@model(x="float[b,2,h,w]", most=64)
def aligned_corners(x):
    return F.interpolate(x, size=(x.shape[2] * 2 - 1, 7), mode="bilinear", align_corners=True)


@model(x="float[b,2,h,w]", most=64)
def bicubic(x):
    return F.interpolate(x, scale_factor=1.5, mode="bicubic")


@model(x="float[b,2,h,w]", most=64)
def shorter_side_to_eight(x):
    h, w = x.shape[-2:]
    scale = 8 / min(h, w)
    return F.interpolate(x, size=(round(h * scale), round(w * scale)), mode="nearest")


@model(x="float[b,2,h,w]", most=64)
def longer_side_capped(x):
    h, w = x.shape[-2:]
    if max(h, w) > 32:
        s = 32 / max(h, w)
        x = F.interpolate(x, size=(max(1, int(h * s)), max(1, int(w * s))))
    return x


@model(x="float[b,2,h,w]", y="float[b,2,m,k]", most=64)
def resized_to_other(x, y):
    return F.interpolate(x, size=y.shape[-2:]) * y


@model(x="float[b,4,h,w]", most=131)
def shuffled_pixels(x):
    return F.pixel_shuffle(x, 2)


@model(x="float[b,2,h%2=12,w%2=10]", most=131)
def unshuffled_pixels(x):
    return F.pixel_unshuffle(x, 2)


@model(x="float[b,2,h,w]", most=131)
def center_crop(x):
    h, w = x.shape[-2:]
    top, left = (h - 4) // 2, (w - 4) // 2
    return x[..., top : top + 4, left : left + 4]


@model(x="float[b,2,h,w]", most=131)
def center_crop_rounded(x):
    h, w = x.shape[-2:]
    top, left = round((h - 5) / 2.0), round((w - 5) / 2.0)
    return x[..., top : top + 5, left : left + 5]


@model(x="float[b,2,h,w]", most=131)
def patches(x):
    b, c, h, w = x.shape
    p = 4
    x = x[..., : h // p * p, : w // p * p]
    x = x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (h // p) * (w // p), c * p * p)


@model(x="float[b,2,h,w]", most=64)
def unfolded(x):
    return F.unfold(x, 3, padding=1)


@model(x="float[b,2,h,w]", most=64)
def unfolded_and_folded(x):
    columns = F.unfold(x, 2, stride=2)
    h, w = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    return F.fold(columns, (h, w), 2, stride=2)


@model(x="float[b,2,h,w]", most=64)
def windows_shifted(x):
    b, c, h, w = x.shape
    x = F.pad(x, (0, -w % 4, 0, -h % 4))
    x = x.roll((-2, -2), (2, 3))
    hp, wp = x.shape[-2:]
    x = x.view(b, c, hp // 4, 4, wp // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
    return x.mean(1)


@model(x="float[b,2,h,w]", most=131)
def reflect_padded(x):
    return F.pad(x, (2, 1, 1, 2), mode="reflect")


@model(x="float[b,2,h,w]", most=131)
def circular_padded(x):
    return F.pad(x, (1, 1, 2, 0), mode="circular") + F.pad(x, (1, 1, 2, 0), mode="replicate")


@model(x="float[b,2,h,w]", most=64)
def sampled_grid(x):
    h, w = x.shape[-2:]
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs * 0.9, ys * 0.8], -1).expand(x.shape[0], -1, -1, -1)
    return F.grid_sample(x, grid, align_corners=False)


@model(x="float[b,2,h,w]", most=64)
def affine_warp(x):
    theta = torch.tensor([[1.0, 0.2, 0.1], [-0.2, 1.0, 0.0]]).expand(x.shape[0], 2, 3)
    grid = F.affine_grid(theta, list(x.shape), align_corners=True)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


@model(x="float[b,3,h,w]", most=64)
class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3))

    def forward(self, x):
        features = []
        for level in self.levels:
            x = level(x).relu()
            features.append(x)
        out = features[-1]
        for each in features[-2::-1]:
            out = each + F.interpolate(out, size=each.shape[-2:])
        return out


@model(x="float[b,4,h,w]", most=64)
class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * self.b(self.a(s).relu()).sigmoid()


@model(x="float[b,4,h,w]", most=64)
class GroupedDepthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.GELU(), nn.Conv2d(4, 8, 1, groups=2)
        )
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.norm(self.conv(x))


@model(x="float[b,2,h,w]", most=64)
class ResidualPositions(nn.Module):
    """A table of positions that is resized to the picture."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 2, 6, 6))

    def forward(self, x):
        if x.shape[-2:] == (6, 6):
            return x + self.table
        return x + F.interpolate(self.table, size=x.shape[-2:], mode="bicubic")


@model(x="float[b,3,h,w]", most=64)
def normalized_channels(x):
    mean = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)
    return (x - mean) / torch.tensor([0.2, 0.3, 0.25]).view(-1, 1, 1)


@model(x="float[b,2,h,w]", most=64)
def lowest_in_padding(x):
    return -F.max_pool2d(-F.pad(x, (1, 1, 1, 1), value=float("inf")), 3, 1)


@model(x="float[2,h,w]", most=131)
def stacked_tiles(x):
    tiles = [
        x[:, i : i + 8, j : j + 8].mean((1, 2))
        for i in range(0, x.shape[1], 8)
        for j in range(0, x.shape[2], 8)
    ]
    return torch.stack(tiles)
