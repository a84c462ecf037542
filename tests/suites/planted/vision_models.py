"""Small models of pictures and boxes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .drawn_inputs import Size, boxes, floats, uniform
from .subject import planted

ANY = {"h": Size(16, 4), "w": Size(12, 4)}


@planted(x=floats("b", 3, 12, 12))
class convolutions(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 5),
        )  # fmt: skip

    def forward(self, x):
        return super().forward(x).softmax(-1)


@planted(ANY, x=floats("b", 3, "h", "w"))
class pooled_to_one(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = F.leaky_relu(self.second(F.pad(x, (1, 1, 1, 1), mode="replicate")), 0.1)
        return self.head(x.mean((2, 3)))


@planted({"h": Size(16, 4, 256), "w": Size(12, 4, 256)}, x=floats("b", 2, "h", "w"))
class little_unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.up = nn.Conv2d(6, 3, 3, padding=1)

    def forward(self, x):
        low = F.silu(self.down(x))
        low = F.interpolate(low, size=x.shape[2:], mode="bilinear", align_corners=False)
        return self.up(torch.cat((x, low), 1)).sigmoid()


@planted(ANY, x=floats("b", 4, "h", "w"))
class squeeze_and_excite(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep, self.point = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 6, 1)
        self.less, self.more = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)

    def forward(self, x):
        x = F.hardswish(self.point(self.deep(x)))
        gate = self.more(F.relu(self.less(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(gate)


@planted({"h": Size(5, 1, 300), "w": Size(4, 1, 300)}, x=floats("b", 3, "h", "w"))
class transposed_convolution(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1), nn.InstanceNorm2d(4, affine=True),
            nn.ELU(), nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), nn.Tanh(),
        )  # fmt: skip


@planted(x=floats("b", 3, 16, 16))
class patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.token, self.place = (
            nn.Parameter(torch.randn(1, 1, 8)),
            nn.Parameter(torch.randn(17, 8)),
        )
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.place
        return self.norm(x)[:, 0]


@planted({"h": Size(13, 1), "w": Size(10, 1)}, x=floats("b", 2, "h", "w"))
class padded_to_multiples(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 4, 4, stride=4)

    def forward(self, x):
        h, w = x.shape[-2:]
        x = F.pad(x, (0, -w % 4, 0, -h % 4))
        return F.gelu(self.patch(x))


@planted({"h": Size(5), "w": Size(4)}, x=floats("b", 8, "h", "w"))
def shuffled_pixels(x):
    x = F.pixel_shuffle(x, 2)
    return F.pixel_unshuffle(F.relu6(x * 3), 2).flip(1)


@planted({"h": Size(6, 2), "w": Size(5, 2)}, x=floats("b", 2, "h", "w"), theta=floats("b", 2, 3))
def warped(x, theta):
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


@planted({"h": Size(11, 3), "w": Size(9, 3)}, x=floats("b", 2, "h", "w"))
def pools(x):
    most = F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True)
    mean = F.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True, count_include_pad=False)
    return most - mean


@planted({"h": Size(8, 3), "w": Size(6, 3)}, x=floats("b", 4, "h", "w"))
class grouped(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(4, 8, 3, padding=2, dilation=2, padding_mode="zeros"), nn.GroupNorm(2, 8),
            nn.PReLU(8), nn.Conv2d(8, 4, 1, bias=False),
        )  # fmt: skip


@planted({"n": Size(4), "m": Size(5)}, a=boxes("n"), b=boxes("m"))
def overlaps(a, b):
    start = torch.max(a[:, None, :2], b[None, :, :2])
    end = torch.min(a[:, None, 2:], b[None, :, 2:])
    wide = (end - start).clamp(min=0)
    both = wide[..., 0] * wide[..., 1]
    area = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    other = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return both / (area[:, None] + other[None] - both + 1e-6)


@planted(x=floats("n", 4), anchors=boxes("n"))
def decoded_boxes(x, anchors):
    size = anchors[:, 2:] - anchors[:, :2]
    middle = anchors[:, :2] + 0.5 * size
    middle = middle + x[:, :2] * 0.1 * size
    size = size * (x[:, 2:] * 0.2).clamp(max=4.135).exp()
    made = torch.cat((middle - size / 2, middle + size / 2), -1)
    return torch.stack((made[:, 0::2].clamp(0, 64), made[:, 1::2].clamp(0, 48)), -1).flatten(1)


@planted(a=boxes("n"), scores=uniform("n"))
def softly_suppressed(a, scores):
    order = scores.argsort(descending=True)
    a, scores = a[order], scores[order]
    start, end = torch.max(a[:, None, :2], a[:, :2]), torch.min(a[:, None, 2:], a[:, 2:])
    both = (end - start).clamp(min=0).prod(-1)
    area = (a[:, 2:] - a[:, :2]).prod(-1)
    iou = (both / (area[:, None] + area - both).clamp(min=1e-4)).triu(1)
    worst = iou.max(0).values
    return a, scores * torch.exp(-(worst**2) / 0.5), scores > 0.05


@planted({"h": Size(4, 1, 200), "w": Size(5, 1, 200)}, x=floats(1, 4, "h", "w"))
def anchored(x):
    h, w = x.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    middle = (torch.stack((xs, ys), -1).reshape(-1, 2) + 0.5) * 8
    d = x[0].permute(1, 2, 0).reshape(-1, 4).relu()
    return torch.cat((middle - d[:, :2], middle + d[:, 2:]), 1)


@planted({"h": Size(9, 2, 300), "w": Size(7, 2, 300)}, x=floats("b", 2, "h", "w"))
class pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.side, self.out = (
            nn.Conv2d(2, 3, 2, 2),
            nn.Conv2d(2, 3, 1),
            nn.Conv2d(3, 3, 1),
        )

    def forward(self, x):
        low = self.down(x)
        up = F.interpolate(low, size=x.shape[-2:], mode="nearest")
        return self.out(self.side(x) + up), low


@planted({"h": Size(6), "w": Size(5)}, x=floats("b", 3, "h", "w"))
def keypoints(x):
    b, k, h, w = x.shape
    p = x.flatten(2).softmax(-1).view(b, k, h, w)
    ys, xs = torch.linspace(0, 1, h), torch.linspace(0, 1, w)
    return torch.stack(((p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)), -1)


@planted({"h": Size(6, 2), "w": Size(5, 2)}, x=floats("b", 3, "h", "w"))
def total_variation(x):
    down = (x[..., 1:, :] - x[..., :-1, :]).abs().mean((1, 2, 3))
    right = (x[..., 1:] - x[..., :-1]).pow(2).mean((1, 2, 3))
    return down + 0.5 * right


@planted({"h": Size(6), "w": Size(5)}, x=floats("b", 1, "h", "w"), y=uniform("b", 1, "h", "w"))
def dice_and_focal(x, y):
    p = x.sigmoid()
    dice = 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
    ce = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    hard = p * y + (1 - p) * (1 - y)
    return dice + (ce * (1 - hard) ** 2).mean((1, 2, 3))


@planted(x=uniform("b", 3, "h", "w"))
def normalized_picture(x):
    mean, std = torch.tensor([0.48, 0.45, 0.4]), torch.tensor([0.22, 0.22, 0.23])
    x = (x - mean[:, None, None]) / std[:, None, None]
    grey = (x * torch.tensor([0.3, 0.59, 0.11]).view(3, 1, 1)).sum(1, keepdim=True)
    return torch.cat((x, grey), 1).clamp(-2, 2)


@planted({"h": Size(6, 2), "w": Size(8, 2)}, x=floats("b", 2, "h", "w"))
def windows_of_two(x):
    b, c, h, w = x.shape
    x = x[:, :, : h // 2 * 2, : w // 2 * 2]
    x = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).flatten(3)
    return x.amax(-1) - x.amin(-1)
