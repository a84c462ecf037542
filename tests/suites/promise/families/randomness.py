"""Randomness: dropout off and on, seeds, generators, draws that do not matter."""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..listing import factory, model


@model(x="float[n,4]")
class DropoutOff(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x))


@model(x="float[n,4]")
def dropout_always(x):
    return F.dropout(x, 0.5, training=True)


@model(x="float[n,4]")
def dropout_of_nothing(x):
    return F.dropout(x, 0.0, training=True)


@model(x="float[n,4]")
class FlagOfModule(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.3, self.training) + 1


@model(x="float[n,4]")
class StochasticDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if self.training and torch.rand(()) < 0.5:
            return x
        return x + self.layer(x)


@model(x="float[n,4]")
def noise_added(x):
    return x + torch.randn_like(x) * 0.1


@model(x="float[n,4]")
def noise_beside(x):
    return x * 2, torch.rand(x.shape[0])


@model(x="float[n,4]")
def noise_times_zero(x):
    return x + torch.rand_like(x) * 0


@model(x="float[n,4]")
def seeded_each_time(x):
    torch.manual_seed(7)
    return x + torch.randn(4)


@model(x="float[n,4]")
def seeded_as_long(x):
    torch.manual_seed(7)
    return x + torch.randn(x.shape[0], 1)


@model(x="float[n,4]")
def own_generator(x):
    g = torch.Generator().manual_seed(3)
    return x * torch.rand(4, generator=g)


@model(x="float[n,4]")
def own_generator_as_long(x):
    g = torch.Generator().manual_seed(3)
    return x * torch.rand(x.shape[0], 1, generator=g)


@factory(x="float[n,4]")
def generator_outside():
    g = torch.Generator().manual_seed(5)
    return lambda x: x + torch.rand(4, generator=g)


@model(x="float[n,4]")
def permuted_with_seed(x):
    g = torch.Generator().manual_seed(0)
    return x[:, torch.randperm(4, generator=g)]


@model(x="float[n,4]")
def permuted_rows_summed(x):
    return x[torch.randperm(x.shape[0])].sum(0)


@model(x="float[n,4]")
def permuted_and_back(x):
    order = torch.randperm(x.shape[0])
    return x[order].relu()[order.argsort()]


@model(x="float[n,4]")
def python_random_seeded(x):
    r = random.Random(4)
    return x * r.random() + r.randint(1, 5)


@model(x="float[n,4]")
def numpy_random_seeded(x):
    w = np.random.RandomState(2).randn(4).astype("float32")
    return x * torch.from_numpy(w)


@model(x="float[n,4]")
def numpy_random_as_long(x):
    w = np.random.default_rng(2).standard_normal(x.shape[0]).astype("float32")
    return x * torch.from_numpy(w)[:, None]


@model(x="float[n,4]")
def sample_of_columns(x):
    chosen = random.Random(1).sample(range(4), 2)
    return x[:, chosen]


@model(x="float[n,4]")
def sample_of_rows_seeded(x):
    chosen = random.Random(1).sample(range(x.shape[0]), max(1, x.shape[0] // 2))
    return x[chosen]


@model(x="float[n,4]")
class RandomProjection(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer(
            "matrix", torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
        )

    def forward(self, x):
        return x @ self.matrix


@model(x="float[n,4]")
class Reparametrized(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        mean, log = self.mean(x), self.log(x)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp() if self.training else mean
        return z, log


@model(x="float[n,4]")
class ReparametrizedAlways(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        mean, log = self.mean(x), self.log(x)
        return mean + torch.randn_like(mean) * (0.5 * log).exp(), mean, log


@model(x="float[n,4]")
def shape_of_draw(x):
    return x.sum(0) * torch.rand(x.shape[0]).shape[0]


@model(x="float[n,4]")
def certain_bernoulli(x):
    return x * torch.bernoulli(torch.ones_like(x)) + torch.bernoulli(torch.zeros(4))


@model(x="float[n,4]")
def random_but_sorted_rank(x):
    return torch.rand(x.shape[0]).sort().indices.sort().values


@model(x="float[n,4]")
def draw_compared(x):
    return x * (torch.rand_like(x) < 2)


@model(x="float[n,4]")
def forked_state(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        noise = torch.randn(4)
    return x + noise


@model(x="float[n,4]")
def gumbel_hard_argmax(x):
    return F.gumbel_softmax(x, hard=True).sum(-1)


@model(x="float[n,4]")
def rrelu_off(x):
    return F.rrelu(x) + F.alpha_dropout(x, 0.5, training=False)


@model(x="float[n,4]")
def branch_on_a_draw_without_effect(x):
    if torch.rand(()).item() < 0:
        return x * 0
    return x * 3


@model(x="float[n,4]")
def python_random_branch(x):
    return x * 2 if random.random() < 2 else x


@model(x="positive[n,4]")
def certain_multinomial(x):
    p = torch.zeros(x.shape[0], 4)
    p[:, 2] = 1
    return torch.multinomial(p, 1) + x.argmax(1, keepdim=True) * 0
