"""Loops whose rounds are not alike: later ones differ, and numbers follow from the round."""

from __future__ import annotations

import math

import torch
from torch import nn

from ..listing import model


@model(x="float[n,4]", most=131)
def round_forty_differs(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        h = h * 0.5 + x[i] * (10 if i == 40 else 1)
    return h


@model(x="float[n,4]", most=131)
def reset_every_sixteen(x):
    h, outs = torch.zeros(4), []
    for i in range(x.shape[0]):
        if i % 16 == 0:
            h = torch.zeros(4)
        h = h + x[i]
        outs.append(h)
    return torch.stack(outs)


@model(x="float[n,4]", most=131)
def warm_up_of_ten(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        rate = 0.1 if i < 10 else 0.5
        h = h + rate * (x[i] - h)
    return h


@model(x="float[n,4]", most=131)
def late_change(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        h = h + x[i] * (2.0 if i > 90 else 1.0)
    return h


@model(x="float[n,4]", most=131)
def geometric_weights(x):
    return sum(row * 0.9**i for i, row in enumerate(x))


@model(x="float[n,4]", most=131)
def roots_of_rounds(x):
    return sum(row / math.sqrt(i + 1) for i, row in enumerate(x))


@model(x="float[n,4]", most=131)
def sines_of_rounds(x):
    return torch.stack([row * math.sin(i) for i, row in enumerate(x)])


@model(x="float[n,4]", most=131)
def squares_of_rounds(x):
    h = torch.zeros(4)
    for i in range(len(x)):
        h = h + x[i] * i * i
    return h


@model(x="float[n,4]", most=131)
def thirds_of_rounds(x):
    return torch.stack([x[i // 3] + x[(i * 7) % len(x)] for i in range(len(x))])


@model(x="float[n,4]", most=131)
def weights_in_a_ring(x):
    ring = [1.0, -1.0, 0.5]
    return sum(x[i] * ring[i % 3] for i in range(x.shape[0]))


@model(x="float[n,4]", most=131)
def irregular_weights(x):
    table = [((i * i * 31 + 7) % 101) / 50 for i in range(200)]
    return sum(x[i] * table[i] for i in range(x.shape[0]))


@model(x="float[n,4]", most=131)
def digits_of_rounds(x):
    return sum(x[i] * len(str(i)) for i in range(x.shape[0]))


@model(x="float[n,4]", most=131)
def text_of_round(x):
    return sum(x[i] * int(str(i)[-1]) for i in range(x.shape[0]))


@model(x="float[n,4]", most=131)
def primes_only(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        if i > 1 and all(i % k for k in range(2, math.isqrt(i) + 1)):
            h = h + x[i]
    return h


@model(x="float[n,4]", most=131)
def powers_of_two_only(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        if i & (i - 1) == 0:
            h = h + x[i]
    return h


@model(x="float[n,4]", most=131)
def fibonacci_rows(x):
    a, b, h = 0, 1, torch.zeros(4)
    while a < x.shape[0]:
        h = h + x[a]
        a, b = b, a + b
    return h


@model(x="float[n,4]", most=131)
def growing_steps(x):
    i, step, h = 0, 1, torch.zeros(4)
    while i < x.shape[0]:
        h = h + x[i]
        i += step
        step += 1
    return h


@model(x="float[n,4]", most=131)
def from_both_ends(x):
    i, j, outs = 0, x.shape[0] - 1, []
    while i < j:
        outs.append(x[i] * x[j])
        i, j = i + 1, j - 1
    return torch.stack(outs).sum(0) if outs else torch.zeros(4)


@model(x="float[n,4]", most=131)
class LayersInTurn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        h = torch.zeros(4)
        for i in range(x.shape[0]):
            h = torch.tanh(self.layers[i % 3](h + x[i]))
        return h


@model(x="float[n,4]", most=131)
class LayerOfDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))

    def forward(self, x):
        h = x.mean(0)
        for i in range(min(x.shape[0], 12)):
            h = torch.tanh(self.layers[i](h))
        return h


@model(x="float[n,4]", most=131)
def at_most_twenty_rounds(x):
    h = torch.zeros(4)
    for i in range(min(x.shape[0], 20)):
        h = torch.tanh(h + x[i])
    return h


@model(x="float[n,4]", most=131)
def stops_after_fifty(x):
    h = torch.zeros(4)
    for i, row in enumerate(x):
        if i >= 50:
            break
        h = 0.9 * h + row
    return h


@model(x="float[n,4]", most=131)
def last_round_differs(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        h = h + (x[i] * 5 if i == x.shape[0] - 1 else x[i])
    return h


@model(x="float[n,4]", most=131)
def middle_round_differs(x):
    h = torch.zeros(4)
    for i in range(x.shape[0]):
        h = h - x[i] if i == x.shape[0] // 2 else h + x[i]
    return h


@model(x="float[n,4]", most=131)
def window_grows(x):
    return torch.stack([x[max(0, i - 10) : i + 1].mean(0) for i in range(x.shape[0])])


@model(x="float[n,4]", most=131)
def list_of_last_five(x):
    last, outs = [], []
    for row in x:
        last.append(row)
        if len(last) > 5:
            last.pop(0)
        outs.append(sum(last) / len(last))
    return torch.stack(outs)


@model(x="float[n,4]", most=64)
def threshold_passed_in_rounds(x):
    total, h = torch.zeros(()), torch.zeros(4)
    for row in x:
        total = total + row.abs().max()
        if total > 12:
            row = row * 0.1
        h = h + row
    return h


@model(x="float[n,4]", most=64)
def best_so_far(x):
    best, at = x[0].sum(), 0
    for i in range(1, x.shape[0]):
        if x[i].sum() > best:
            best, at = x[i].sum(), i
    return best, at


@model(x="float[n,4]", most=64)
def patience_of_three(x):
    best, bad, h = x[0].sum(), 0, x[0]
    for row in x[1:]:
        if row.sum() > best:
            best, bad, h = row.sum(), 0, row
        else:
            bad += 1
            if bad == 3:
                break
    return h
