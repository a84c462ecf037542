"""NumPy and math on sizes, and numbers that tensors hold on the way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch

from ..listing import model


@model(x="float[n,4]")
def divided_by_root(x):
    return x / math.sqrt(x.shape[0])


@model(x="float[n,4]")
def log_of_length(x):
    return x * math.log(x.shape[0] + 1)


@model(x="float[n,4]")
def log2_rounded_up(x):
    return x * math.ceil(math.log2(x.shape[0]))


@model(x="float[n,4]")
def floor_and_ceil(x):
    return x * math.floor(x.shape[0] / 3) + math.ceil(x.shape[0] / 3) - math.trunc(len(x) / 7)


@model(x="float[n,4]")
def common_divisor(x):
    return x.reshape(math.gcd(x.shape[0], 12), -1)


@model(x="float[n,4]")
def common_multiple(x):
    return x + math.lcm(x.shape[0], 6)


@model(x="float[b,n]")
def product_of_shape(x):
    return x.reshape(math.prod(x.shape)) / math.prod(x.shape[1:])


@model(x="float[n,4]")
def factorial_capped(x):
    return x * math.factorial(min(x.shape[0], 6))


@model(x="float[n,4]")
def pairs_counted(x):
    return x / max(math.comb(x.shape[0], 2), 1)


@model(x="float[n,4]")
def integer_root(x):
    side = math.isqrt(x.shape[0])
    return x[: side * side].reshape(side, side, 4)


@model(x="float[n,4]")
def phase_by_size(x):
    return x * math.sin(x.shape[0]) + math.cos(2 * math.pi / x.shape[0])


@model(x="float[n,4]")
def exponential_decay(x):
    return x * math.exp(-x.shape[0] / 10) + math.pow(0.9, x.shape[0])


@model(x="float[n,4]")
def numpy_product(x):
    return x.reshape(int(np.prod(x.shape))) * 2


@model(x="float[n,4]")
def numpy_root(x):
    return x / np.sqrt(x.shape[0])


@model(x="float[n,4]")
def numpy_linspace(x):
    grid = torch.from_numpy(np.linspace(0, 1, x.shape[0], dtype=np.float32))
    return x * grid[:, None]


@model(x="float[n,4]")
def numpy_arange(x):
    at = torch.as_tensor(np.arange(len(x)) % 3)
    return x + at[:, None]


@model(x="float[n,4]")
def numpy_window(x):
    return x * torch.tensor(np.hanning(x.shape[0]), dtype=torch.float32)[:, None]


@model(x="float[n,4]")
def numpy_mask(x):
    keep = np.ones(x.shape[0], dtype=bool)
    keep[::3] = False
    return x[torch.from_numpy(keep)]


@model(x="float[n,n]")
def numpy_triangle(x):
    return x * torch.from_numpy(np.tril(np.ones(x.shape, dtype=np.float32)))


@model(x="float[n,4]")
def numpy_positions(x):
    at = np.arange(x.shape[0])[:, None] / np.power(100, np.arange(4) / 4)
    return x + torch.tensor(np.sin(at)).float()


@model(x="float[n,4]")
def numpy_clip(x):
    n = int(np.clip(x.shape[0], 3, 30))
    return x.sum(0) * n


@model(x="float[b,n]")
def numpy_maximum(x):
    return x * float(np.maximum(x.shape[0], x.shape[1])) + int(np.max(x.shape))


@model(x="float[n,4]")
def numpy_choice_of_steps(x):
    edges = np.linspace(0, x.shape[0], 4).astype(int)
    return torch.stack([x[a:b].sum(0) for a, b in zip(edges[:-1], edges[1:])])


@model(x="float[n,4]")
def numpy_array_split(x):
    parts = np.array_split(np.arange(x.shape[0]), 3)
    return torch.stack([x[torch.from_numpy(p)].sum(0) for p in parts])


@model(x="float[n,4]")
def numpy_digitize(x):
    step = int(np.digitize(x.shape[0], [4, 8, 64]))
    return x * (step + 1)


@model(x="float[n,4]")
def numpy_searchsorted(x):
    return x + int(np.searchsorted([2, 6, 20, 200], len(x)))


@model(x="float[n,4]")
def numpy_divmod(x):
    q, r = np.divmod(x.shape[0], 4)
    return x * int(q) + int(r)


@model(x="float[n,4]")
def numpy_of_tensor(x):
    return torch.from_numpy(np.tanh(x.numpy())) * x.shape[0]


@model(x="float[n,4]")
def scalar_of_tensor(x):
    return x * x.max().item()


@model(x="float[n,4]")
def float_of_mean(x):
    scale = float(x.abs().mean()) + 1e-3
    return x / scale


@model(x="float[n,4]")
def int_of_sum(x):
    return x + int(x.abs().sum()) % 7


@model(x="float[n,4]")
def tensor_of_item(x):
    low, high = x.min().item(), x.max().item()
    return (x - low) / (high - low + 1e-3)


@model(x="float[n,4]")
def math_of_item(x):
    return x * math.tanh(x.mean().item()) + math.sqrt(abs(x.sum().item()))


@model(x="float[n,4]")
def linspace_from_items(x):
    grid = torch.linspace(float(x.min()), float(x.max()) + 1, 5)
    return x[:, :1] * grid


@model(x="float[n,4]")
def round_of_item(x):
    return x + round(x.mean().item(), 1)


@model(x="float[n,4]")
def max_of_list(x):
    values = x[:, 0].tolist()
    return x * (max(values) - min(values))


@model(x="float[n,4]")
def tolist_sum(x):
    total = sum(x.sum(0).tolist())
    return x + total / 4


@model(x="float[n,4]")
def fraction_of_size(x):
    share = Fraction(x.shape[0], 12)
    return x * float(share) + share.numerator


@model(x="float[n,4]")
def float_and_back(x):
    n = int(float(x.shape[0]) / 2.0 * 2.0 + 0.5)
    return x[:n] + n


@model(x="float[n,4]")
def hypot_and_atan(x):
    return x * math.hypot(x.shape[0], 3) + math.atan2(1, x.shape[0])


@model(x="float[n,4]")
def is_close_to(x):
    return x + 1 if math.isclose(x.shape[0] / 3, round(x.shape[0] / 3)) else x - 1


@model(x="float[n,4]")
def modf_of_share(x):
    rest, whole = math.modf(x.shape[0] / 4)
    return x[: int(whole) + 1] * (1 + rest)


@model(x="float[n,4]")
def torch_scalar_of_size(x):
    n = torch.tensor(x.shape[0], dtype=torch.float32)
    return x * n.sqrt() + torch.log(n)


@model(x="float[n,4]")
def tensor_of_shape(x):
    return x / torch.tensor(x.shape).prod()


@model(x="float[n,4]")
def numpy_median_row(x):
    return x[int(np.median(np.arange(x.shape[0])))]


@model(x="float[n,4]")
def numpy_meshgrid(x):
    ys, xs = np.meshgrid(np.arange(x.shape[0]), np.arange(4), indexing="ij")
    return x + torch.from_numpy((ys * 4 + xs).astype("float32"))
