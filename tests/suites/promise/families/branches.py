"""Branches on values."""

from __future__ import annotations

import torch
from torch import nn

from ..listing import model


@model(x="float[n,4]")
def scaled_if_large(x):
    if x.abs().max() > 3:
        x = x / x.abs().max()
    return x


@model(x="float[n,4]")
def sign_of_sum(x):
    return x.exp().clamp(max=10) if x.sum() > 0 else x.tanh()


@model(x="float[n,4]")
def exactly_zero(x):
    if not x.any():
        return torch.ones_like(x)
    return x / x.abs().sum()


@model(x="float[n,4]")
def norm_above_one(x):
    norm = x.norm().item()
    if norm > 1:
        return x / norm
    return x


@model(x="float[n,4]")
def three_ways(x):
    m = x.mean()
    if m > 0.1:
        return x * 2
    elif m < -0.1:
        return x * 3
    return x * 0


@model(x="float[n,4]")
def two_questions(x):
    y = x
    if x[0, 0] > 0:
        y = y + 1
    if x[-1, -1] > 0:
        y = y * 2
    return y


@model(x="float[n,4]")
def nested_questions(x):
    if x.sum() > 0:
        if x.max() > 2:
            return x - 2
        return x + 2
    return -x


@model(x="float[n,4]", flag="bool[]")
def flag_decides(x, flag):
    if flag:
        return x * 2
    return x + 5


@model(x="float[n,4]", k="int[]<5")
def switch_on_value(x, k):
    if k == 0:
        return x
    if k == 1:
        return x * 2
    if k == 2:
        return x.relu()
    return x - k


@model(x="float[n,4]", k="int[]<4")
def picked_from_list(x, k):
    functions = [torch.relu, torch.tanh, torch.sigmoid, torch.neg]
    return functions[int(k)](x)


@model(x="float[n,4]", k="int[]<4")
def picked_from_dict(x, k):
    scales = {0: 1.0, 1: 2.5, 2: -1.0}
    return x * scales.get(k.item(), 7.0)


@model(x="float[n,4]")
def all_finite(x):
    if torch.isfinite(x).all():
        return x * 2
    return torch.zeros_like(x)


@model(x="float[n,4]")
def any_negative(x):
    return x.clamp(min=0).sqrt() if (x < 0).any() else x.sqrt()


@model(x="float[n,4]")
def equal_tensors(x):
    if torch.equal(x, x.abs()):
        return x.sum(0)
    return x.prod(0)


@model(x="float[n,4]")
def allclose_to_zero(x):
    return x + 1 if torch.allclose(x, torch.zeros_like(x), atol=1e-2) else x - 1


@model(x="float[n,4]")
def rows_counted(x):
    count = int((x[:, 0] > 0).sum())
    if count > 2:
        return x / count
    return x


@model(x="float[n,4]")
def count_as_divisor(x):
    count = (x > 0).sum()
    return x.sum(0) / max(int(count), 1)


@model(x="float[n,4]")
def ternary_on_item(x):
    scale = 2.0 if x.min().item() < -1 else 0.5
    return x * scale


@model(x="float[n,4]")
def and_or(x):
    if (x.max() > 1 and x.min() < -1) or x.mean() > 0.5:
        return x * 10
    return x


@model(x="float[n,4]")
def not_of_value(x):
    if not (x.sum() > 0):
        return x.abs()
    return x


@model(x="float[n,4]")
def max_of_scalars(x):
    return x * max(x.mean(), x.abs().mean() - 0.5)


@model(x="float[n,4]")
def min_with_constant(x):
    return x + min(x.max().item(), 2.0)


@model(x="float[n,4]")
def where_instead(x):
    return torch.where(x.sum() > 0, x * 2, x * 3)


@model(x="float[n,4]")
def index_of_largest(x):
    i = int(x[:, 0].argmax())
    return x[i] - x[0]


@model(x="float[n,4]")
def slice_up_to_value(x):
    k = int(x.abs().argmax() % 4)
    return x[:, : k + 1].sum(1)


@model(x="float[n,4]")
def early_return_small(x):
    if x.std() < 0.5:
        return x
    x = (x - x.mean()) / x.std()
    if x.max() > 2.5:
        return x.clamp(-2, 2)
    return x


@model(x="float[n,4]")
def raises_on_negative(x):
    if x.sum() < -4:
        raise ValueError("negative")
    return x.sum(1)


@model(x="float[n,4]")
def cond_op(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


@model(x="float[n,4]")
class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        layer = self.large if x.abs().mean() > 1 else self.small
        return layer(x)


@model(x="float[n,4]")
class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        out = self.head(h)
        if out.softmax(-1).amax() > 0.9:
            return out
        return self.head(torch.relu(self.second(h)))


@model(x="float[b,4]", k="int[b]<3")
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, k):
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = k == i
            if chosen.any():
                out[chosen] = expert(x[chosen])
        return out


@model(x="float[n,4]")
def saturates_only_if_large(x):
    y = x * 3
    if y.max() >= 100:
        y = y.clamp(max=100)
    return y


@model(x="float[n,4]")
def far_threshold(x):
    if x.abs().max() > 150:
        return torch.zeros_like(x)
    return x


@model(x="signed[n]")
def parity_of_sum(x):
    return x * 2 if x.sum() % 2 == 0 else x + 1


@model(x="signed[n]")
def all_equal_values(x):
    if (x == x[0]).all():
        return x * 0
    return x - x.min()


@model(x="float[n,4]")
def boolean_arithmetic(x):
    positive = bool(x.mean() > 0)
    return x * (1 + positive) + positive


@model(x="float[n,4]")
def sorted_already(x):
    row = x[:, 0]
    if (row[1:] >= row[:-1]).all():
        return x
    return x[row.argsort(stable=True)]
