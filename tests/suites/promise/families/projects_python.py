"""Python around tensors, as projects write it: pairs, searches, early ends, and formulas of sizes."""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[n,4]", most=40)
def zipped_with_range(x):
    total = x.new_zeros(4)
    for row, i in zip(x.unbind(0), range(x.shape[0])):
        total = total + row * (i + 1)
    return total


@model(x="float[n,4]", most=40)
def zipped_with_weights(x):
    """At most five rows count."""
    return sum(row * w for row, w in zip(x, [0.1, 0.2, 0.3, 0.2, 0.1]))


@model(x="float[n=7,4]", most=40)
def zipped_splits(x):
    parts = []
    for part, w in zip(x.split(3), (1.0, 0.5, 0.25, 0.125)):
        parts.append(part.sum(0) * w)
    return torch.stack(parts)


@model(x="float[n,4]", y="float[m,4]", most=40)
def zipped_of_two(x, y):
    """Adds the rows of two tensors in pairs, up to the end of the shorter one."""
    return torch.stack([a + b for a, b in zip(x.unbind(), y.unbind())])


@model(x="float[n,4]", d="int[n]<4", most=40)
def zipped_with_tolist(x, d):
    return torch.stack([row * k for row, k in zip(x, d.tolist())])


@model(x="float[n,4]", most=40)
def zipped_neighbours(x):
    rows = x.unbind()
    return torch.stack([b - a for a, b in zip(rows, rows[1:])])


@model(x="float[n,4]", most=40)
def ended_at_size(x):
    total = torch.zeros(4)
    for i in range(x.shape[0]):
        if i >= 3:
            break
        total = total + x[i]
    return total


@model(x="float[n,4]", most=40)
def ended_past_half(x):
    total = torch.zeros(4)
    for i in range(x.shape[0]):
        if 2 * i >= x.shape[0]:
            break
        total = total + x[i] * i
    return total


@model(x="float[n,4]", most=40)
def ended_by_value(x):
    total = torch.zeros(4)
    for i in range(x.shape[0]):
        total = total + x[i]
        if total.sum() > 3:
            break
    return total


@model(x="float[n,4]", most=40)
def ended_by_negative_row(x):
    kept = 0
    for row in x:
        if row.sum() < 0:
            break
        kept = kept + row
    return kept + x.mean(0)


@model(x="float[n,4]", most=40)
def first_three_of_list(x):
    return torch.stack(list(x)[:3])


@model(x="float[n,4]", most=40)
def last_two_of_list(x):
    return torch.stack(list(x)[-2:])


@model(x="float[n,4]", most=40)
def sliced_by_itertools(x):
    return torch.stack(list(itertools.islice(x, 3)))


@model(x="float[n,4]", most=40)
def sliced_half(x):
    return torch.stack(list(itertools.islice(x, (len(x) + 1) // 2)))


@model(x="float[n,4]", most=40)
def accumulated_rows(x):
    return torch.stack(list(itertools.accumulate(x, lambda a, b: a * 0.5 + b)))


@model(x="float[n,4]", most=40)
def chained_rows(x):
    return torch.stack(list(itertools.chain(x, reversed(x.unbind()))))


@model(x="float[n,4]", most=40)
def largest_row_by_key(x):
    return max(x, key=lambda row: row.sum())


@model(x="float[n,4]", most=40)
def modular_power(x):
    return x * pow(2, x.shape[0], 7)


@model(x="float[n,4]", most=200)
def rounded_up_by_torch(x):
    """A length through float32, as resamplers compute it."""
    n = x.shape[0]
    length = torch.ceil(torch.as_tensor(5 * n / 3)).long()
    return F.pad(x, (0, 0, 0, n))[:length]


@model(x="float[b,1,t=20]", most=300)
class Resampler(nn.Module):
    """Polyphase filters, and the length by a rounded share."""

    def __init__(self, old=3, new=2):
        super().__init__()
        self.old, self.new, self.width = old, new, 4
        at = torch.arange(-self.width, self.width + old)[None, None] / old
        phase = torch.arange(0, -new, -1)[:, None, None] / new + at
        self.register_buffer("kernel", torch.sinc(phase) / old)

    def forward(self, x):
        length = x.shape[-1]
        y = F.conv1d(F.pad(x, (self.width, self.width + self.old)), self.kernel, stride=self.old)
        y = y.transpose(1, 2).reshape(x.shape[0], 1, -1)
        target = torch.ceil(torch.as_tensor(self.new * length / self.old)).long()
        return y[..., :target]


@model(x="float[b,t=20]", most=300)
def resampled_as_julius(x):
    length = x.shape[-1]
    most = torch.ceil(torch.as_tensor(2 * length / 3)).long()
    least = torch.floor(torch.as_tensor(2 * length / 3)).long()
    y = F.interpolate(x[:, None], scale_factor=1.0, mode="nearest")[:, 0]
    return y[..., :most], y[..., :least]


@model(x="float[n,4]", most=200)
def gaussian_share(x):
    n = x.shape[0]
    return x * math.erf(n / 50)


@model(x="float[n,4]", most=200)
def angle_of_sizes(x):
    return x * math.atan2(x.shape[0], 4) + math.atan(x.shape[0])


@model(x="float[n,4]", most=200)
def root_of_size(x):
    return x / math.cbrt(x.shape[0]) if hasattr(math, "cbrt") else x


@model(x="float[n,4]", most=200)
def other_roots(x):
    n = x.shape[0]
    return x * n ** (1 / 3) + math.hypot(n, 3) + math.log1p(n) + math.degrees(n) + math.tanh(n / 9)


@model(x="float[n,4]", most=200)
def integer_root(x):
    side = math.isqrt(x.shape[0])
    return x[: side * side].reshape(side, side, 4).sum(1)


@model(x="float[n,4]", most=200)
def schedule_by_numpy(x):
    t = np.linspace(0, 1, x.shape[0])
    weights = np.cos(t * np.pi / 2) ** 2
    return x * torch.from_numpy(weights).float()[:, None]


@model(x="float[n,4]", most=60)
def back_from_numpy(x):
    return torch.from_numpy(x.detach().numpy()) * 2


@model(x="float[n,4]", most=60)
def numpy_in_the_middle(x):
    y = x.cpu().numpy()
    return x + torch.as_tensor(y.sum(0, keepdims=True))


@model(x="float[n,4]", most=60)
def keyed_by_json(x):
    """A cache keyed by a text of the shape."""
    cache = {}
    key = json.dumps({"shape": list(x.shape)})
    if key not in cache:
        cache[key] = torch.arange(x.shape[0]).float()
    return x + cache[key][:, None]


@model(x="float[n,4]", most=60)
def reduced_by_functools(x):
    return functools.reduce(operator.add, x.unbind(0)) / len(x)


@model(x="float[n=8,4]", most=60)
def halves_until_one(x):
    """A tree of sums, as parallel scans are written."""
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, torch.zeros_like(x[:1])])
        x = x[0::2] + x[1::2]
    return x[0]


@model(x="float[n=8,4]", most=60)
def split_in_even_parts(x):
    """Divides the rows into parts of four."""
    parts = torch.tensor_split(x, max(1, len(x) // 4))
    return torch.stack([part.mean(0) for part in parts])


@model(x="float[n=6,4]", most=60)
def batched_calls(x):
    """A batch in pieces of four, as inference loops write it."""
    out = []
    for start in range(0, len(x), 4):
        end = min(start + 4, len(x))
        out.append(torch.tanh(x[start:end]))
    return torch.cat(out)


@model(x="float[n,4]", most=40)
class EarlyExit(nn.Module):
    """Layers until all rows are sure."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.heads = nn.ModuleList(nn.Linear(4, 3) for _ in range(4))

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads):
            x = layer(x).relu()
            share = head(x).softmax(-1)
            if share.max(-1).values.min() > 0.9:
                return share
        return share


@model(x="float[n,4]", most=40)
def pairs_by_itertools(x):
    total = 0
    for a, b in itertools.combinations(x, 2):
        total = total + (a - b).abs().sum()
    return total + x.sum()


@model(x="float[n,4]", most=40)
def counted_by_any(x):
    if any(bool(v > 2) for v in x[:, 0]):
        return x.clamp(max=2)
    return x
