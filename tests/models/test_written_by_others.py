"""Pieces as repositories write them, where sizes go through Python: at sizes never recorded."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.proof import file_proof, proving
from hx.samples import variations

MODELS = {}


def model(dynamic, sizes):
    def register(make):
        MODELS[make.__name__] = make, dynamic, sizes
        return make

    return register


def partition(x, size):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, c)


def together(windows, size, h, w):
    b = int(windows.shape[0] / (h * w / size / size))
    x = windows.view(b, h // size, w // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)


class ShiftedWindows(nn.Module):
    """Padding, a shift, a mask that is filled in slices, and back."""

    def __init__(self, size=4, shift=2):
        super().__init__()
        self.qkv, self.size, self.shift = nn.Linear(8, 24), size, shift

    def mask(self, h, w):
        image, count = torch.zeros((1, h, w, 1)), 0
        cuts = (slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None))
        for rows in cuts:
            for columns in cuts:
                image[:, rows, columns, :] = count
                count += 1
        flat = partition(image, self.size).view(-1, self.size * self.size)
        apart = flat.unsqueeze(1) - flat.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def forward(self, x):
        _, h, w, c = x.shape
        n = self.size * self.size
        right, below = (self.size - w % self.size) % self.size, (-h) % self.size
        padded = F.pad(x, (0, 0, 0, right, 0, below))
        _, high, wide, _ = padded.shape
        shifted = torch.roll(padded, shifts=(-self.shift, -self.shift), dims=(1, 2))
        q, k, v = self.qkv(partition(shifted, self.size).view(-1, n, c)).chunk(3, -1)
        mask = self.mask(high, wide)
        scores = (q @ k.transpose(-1, -2) * c**-0.5).view(-1, mask.shape[0], n, n) + mask
        y = (scores.view(-1, n, n).softmax(-1) @ v).view(-1, self.size, self.size, c)
        y = torch.roll(together(y, self.size, high, wide), (self.shift, self.shift), (1, 2))
        return x + y[:, :h, :w, :].contiguous()


@model({"x": {0: "b", 1: "h", 2: "w"}}, [{"b": 1, "h": 16, "w": 7}, {"h": 9, "w": 9}])
def shifted_windows():
    return ShiftedWindows(), torch.randn(2, 8, 10, 8)


class Anchors(nn.Module):
    """A detection head that keeps its grid until the size changes."""

    def __init__(self, anchors=3, classes=4):
        super().__init__()
        self.anchors, self.outputs, self.grid = anchors, classes + 5, torch.empty(0)
        self.head = nn.Conv2d(4, anchors * self.outputs, 1)
        self.register_buffer("sizes", torch.tensor([10, 13, 16, 30, 33, 23.0]).view(-1, 2))

    def make_grid(self, nx, ny):
        y, x = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
        return torch.stack((x, y), 2).expand(1, self.anchors, ny, nx, 2).float() - 0.5

    def forward(self, x):
        x = self.head(x)
        b, _, ny, nx = x.shape
        x = x.view(b, self.anchors, self.outputs, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
        if self.grid.shape[2:4] != x.shape[2:4]:
            self.grid = self.make_grid(nx, ny)
        place, size, rest = x.sigmoid().split((2, 2, self.outputs - 4), 4)
        size = (size * 2) ** 2 * self.sizes.view(1, self.anchors, 1, 1, 2)
        y = torch.cat(((place * 2 + self.grid) * 8.0, size, rest), 4)
        return y.view(b, self.anchors * nx * ny, self.outputs), x


@model({"x": {0: "b", 2: "h", 3: "w"}}, [{"b": 3, "h": 2, "w": 9}, {"h": 1, "w": 1}])
def anchors():
    return Anchors(), torch.randn(2, 4, 6, 7)


class Neighbours(nn.Module):
    """The nearest points of each point of a cloud, picked through one flat index."""

    def forward(self, x):
        b, c, n = x.shape
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        squares = torch.sum(x**2, 1, keepdim=True)
        nearest = (-squares - inner - squares.transpose(2, 1)).topk(k=4, dim=-1)[1]
        flat = (nearest + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
        points = x.transpose(2, 1).contiguous()
        found = points.view(b * n, -1)[flat, :].view(b, n, 4, c)
        points = points.view(b, n, 1, c).repeat(1, 1, 4, 1)
        return torch.cat((found - points, points), 3).permute(0, 3, 1, 2).max(-1)[0]


@model({"x": {0: "b", 2: "n"}}, [{"b": 3, "n": 17}, {"b": 1, "n": 4}])
def neighbours():
    return Neighbours(), torch.randn(2, 3, 9)


class Experts(nn.Module):
    """Each token goes through two experts of four: rows are gathered, and added back."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        x = x.view(-1, d)
        weight, chosen = torch.topk(F.softmax(self.gate(x), 1, dtype=torch.float), 2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros((b * t, d), dtype=x.dtype)
        mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            which, token = torch.where(mask[i])
            rows = x[None, token].reshape(-1, d)
            out.index_add_(0, token, expert(rows) * weight[token, which, None])
        return out.reshape(b, t, d)


@model({"x": {0: "b", 1: "t"}}, [{"b": 3, "t": 7}, {"b": 1, "t": 2}])
def experts():
    return Experts(), torch.randn(2, 5, 8)


class SamePadding(nn.Module):
    """A strided convolution that pads as TensorFlow does."""

    def __init__(self):
        super().__init__()
        self.conv, self.scale = nn.Conv2d(3, 4, 3, stride=2), 1.5

    def forward(self, x):
        pads = []
        for size in x.shape[:1:-1]:
            pad = max((math.ceil(size / 2) - 1) * 2 + 3 - size, 0)
            pads += [pad // 2, pad - pad // 2]
        y = self.conv(F.pad(x, pads))
        wide = int(y.shape[-1] * self.scale)
        return F.interpolate(y, size=(int(y.shape[-2] * self.scale), wide), mode="nearest") / wide


@model({"x": {0: "b", 2: "h", 3: "w"}}, [{"b": 3, "h": 12, "w": 13}, {"h": 5, "w": 6}])
def same_padding():
    return SamePadding(), torch.randn(2, 3, 9, 8)


class Attended(nn.Module):
    """A U-Net's attention over all places, with its heads folded into the batch."""

    def __init__(self):
        super().__init__()
        self.down, self.qkv = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv1d(8, 24, 1)

    def forward(self, x):
        x = self.down(x)
        b, c, h, w = x.shape
        q, k, v = self.qkv(x.reshape(b, c, -1)).reshape(b * 2, -1, h * w).chunk(3, 1)
        scale = 1.0 / math.sqrt(math.sqrt(c // 2))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale).softmax(-1)
        return x + torch.einsum("bts,bcs->bct", weight, v).reshape(b, -1, h, w)


@model({"x": {0: "b", 2: "h", 3: "w"}}, [{"b": 3, "h": 11, "w": 6}, {"h": 3, "w": 3}])
def attended():
    return Attended(), torch.randn(2, 3, 8, 12)


@pytest.mark.parametrize("name", MODELS)
def test_at_other_sizes(name, tmp_path):
    make, dynamic, sizes = MODELS[name]
    module, x = make()
    program = hx.export(module.eval(), x, tmp_path / "m.onnx", dynamic=dynamic)
    assert not program.report.escapes
    subject, cases = program._subject, []
    for wanted in sizes:
        axes = {axis: wanted[word] for axis, word in dynamic["x"].items() if word in wanted}
        tensors = {"x": variations.resized(x, axes, seed=3)}
        cases.append(file_proof.Case(str(wanted), tensors, subject.runner.results(tensors)))
        cases[-1].noise = proving._noise(subject, cases[-1])
    file_proof.prove(tmp_path / "m.onnx", cases).require()
