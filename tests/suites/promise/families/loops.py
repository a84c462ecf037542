"""Loops over sizes and over data."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from ..listing import model


@model(x="float[b,n,4]", most=131)
def running_state(x):
    h = torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        h = torch.tanh(h * 0.5 + x[:, i])
    return h


@model(x="float[b,n,4]", most=131)
def outputs_in_list(x):
    h, outs = x[:, 0], []
    for row in x.unbind(1):
        h = h * 0.5 + row
        outs.append(h)
    return torch.stack(outs, 1)


@model(x="float[n,4]", most=131)
def rows_of_a_tensor(x):
    total = torch.zeros(4)
    for row in x:
        total = total + row.relu()
    return total


@model(x="float[n,4]", most=131)
def backwards(x):
    h = torch.zeros(4)
    for i in reversed(range(len(x))):
        h = 0.9 * h + x[i]
    return h


@model(x="float[n,4]", most=131)
def neighbours(x):
    total = x[0] * 0
    for i in range(1, x.shape[0]):
        total = total + (x[i] - x[i - 1]).abs()
    return total


@model(x="float[n,4]", most=131)
def in_steps_of_two(x):
    outs = [x[i] * i for i in range(0, x.shape[0], 2)]
    return torch.stack(outs)


@model(x="float[n,4]", most=131)
def written_in_place(x):
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = x[: i + 1].sum(0)
    return out


@model(x="float[n,4]", most=33)
def every_pair(x):
    n = x.shape[0]
    out = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            out[i, j] = (x[i] * x[j]).sum()
    return out


@model(x="float[n,4]", most=33)
def pairs_above_diagonal(x):
    total = torch.zeros(())
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            total = total + (x[i] - x[j]).abs().max()
    return total


@model(x="float[n,4]", most=131)
def counted_weights(x):
    return sum(x[i] * (i + 1) for i in range(x.shape[0]))


@model(x="float[n,4]", most=131)
def enumerated(x):
    out = x[0] * 0
    for i, row in enumerate(x):
        out = out + row / (i + 1)
    return out


@model(x="float[n,4]", y="float[n,4]", most=131)
def zipped(x, y):
    return torch.stack([torch.dot(a, b) for a, b in zip(x, y)])


@model(x="float[n,4]")
def fixed_rounds(x):
    for k in range(5):
        x = x - 0.1 * torch.tanh(x) * k
    return x


@model(x="float[n,4]")
def halving_rounds(x):
    n, out = x.shape[0], x
    while n > 1:
        out = out * 0.9 + 0.1
        n //= 2
    return out


@model(x="float[n,4]")
def doubling_shift(x):
    step = 1
    while step < x.shape[0]:
        x = torch.cat([x[:step], x[step:] + x[:-step]])
        step *= 2
    return x


@model(x="float[n,4]")
def collatz_without_end_at_zero(x):
    n, steps = x.shape[0], 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps


@model(x="float[n,4]")
def collatz(x):
    n, steps = x.shape[0], 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps


@model(x="float[n,4]")
def pooled_until_short(x):
    while x.shape[0] > 4:
        x = (x[0::2][: x.shape[0] // 2] + x[1::2]) / 2
    return x.mean(0)


@model(x="float[n,4]")
def until_converged(x):
    h, rounds = x, 0
    while h.abs().max() > 0.5 and rounds < 40:
        h = h * 0.7
        rounds += 1
    return h, rounds


@model(x="float[n,4]")
def fixed_point(x):
    h = torch.zeros_like(x)
    for _ in range(30):
        new = torch.cos(h) * 0.3 + x.tanh()
        if (new - h).abs().max() < 1e-3:
            break
        h = new
    return h


@model(x="float[n,4]", most=131)
def first_positive_row(x):
    for row in x:
        if row.sum() > 0:
            return row
    return torch.zeros(4)


@model(x="float[n,4]", most=33)
def skips_negative_rows(x):
    total = torch.zeros(4)
    for row in x:
        if row[0] < 0:
            continue
        total = total + row
    return total


@model(x="float[n,4]", k="int[]<6")
def as_often_as_a_value(x, k):
    for _ in range(int(k)):
        x = x * 0.5 + 1
    return x


@model(x="float[n,4]", most=131)
def chunks_of_three(x):
    return torch.cat([c.cumsum(0) for c in x.split(3)])


@model(x="float[n,4]", most=131)
def chunk_means(x):
    return torch.stack([c.mean(0) for c in x.chunk(4)])


@model(x="float[n,4]", most=131)
def windows(x):
    return torch.stack([x[i : i + 3].sum(0) for i in range(len(x) - 2)])


@model(x="float[n,4]", most=131)
def sliding_maximum(x):
    return torch.stack([x[max(0, i - 2) : i + 1].amax(0) for i in range(len(x))])


@model(x="float[b,n,4]", most=131)
class GatedSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.step = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 4)
        for t in range(x.size(1)):
            both = torch.cat([x[:, t], h], -1)
            g = torch.sigmoid(self.gate(both))
            h = g * h + (1 - g) * torch.tanh(self.step(both))
        return h


@model(x="float[b,4]")
class LayersInList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) + (x if i % 2 else 0)
            kept.append(x)
        return torch.cat(kept, 1)


@model(x="float[n,4]", most=131)
def exponential_average(x):
    out, previous = [], None
    for row in x:
        previous = row if previous is None else 0.8 * previous + 0.2 * row
        out.append(previous)
    return torch.stack(out)


@model(x="float[n,4]", most=131)
def interleaved(x):
    rows = list(itertools.chain.from_iterable(zip(x, x * 2)))
    return torch.stack(rows)


@model(x="float[n,4]", most=131)
def accumulated(x):
    return torch.stack(list(itertools.accumulate(x, torch.maximum)))


@model(x="float[n,4]", most=131)
def pairwise_rows(x):
    return torch.stack([b - a for a, b in itertools.pairwise(x)])


@model(x="float[n,4]")
def horner(x):
    y = torch.zeros_like(x)
    for c in (0.5, -1.0, 0.25, 2.0):
        y = y * x.tanh() + c
    return y


@model(x="float[n,4]", most=131)
def with_else(x):
    for i in range(x.shape[0]):
        if i > 100:
            break
        x = x + 0.01
    else:
        x = x * 2
    return x


@model(x="float[b,n]", most=131)
def bubble_pass(x):
    columns = list(x.unbind(1))
    for i in range(len(columns) - 1):
        low = torch.minimum(columns[i], columns[i + 1])
        columns[i + 1] = torch.maximum(columns[i], columns[i + 1])
        columns[i] = low
    return torch.stack(columns, 1)


@model(x="float[n,4]", most=131)
def dynamic_time_row(x):
    cost = [x[0].abs().sum()]
    for i in range(1, x.shape[0]):
        cost.append(torch.minimum(cost[i - 1], cost[max(i - 2, 0)]) + x[i].abs().sum())
    return torch.stack(cost)


@model(x="float[n,4]", most=131)
def every_third_counts(x):
    total = x[0] * 0
    for i in range(x.shape[0]):
        if i % 3 == 0:
            total = total + x[i]
        else:
            total = total * 0.99
    return total


@model(x="float[n,n]", most=33)
def diagonal_by_loop(x):
    trace = 0.0
    for i in range(x.shape[0]):
        trace = trace + x[i, i]
    return trace
