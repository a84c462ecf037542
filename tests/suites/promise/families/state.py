"""State: buffers, caches, counters, closures, tables of results."""

from __future__ import annotations

import functools

import torch
from torch import nn

from ..listing import factory, model


@factory(x="float[n,4]")
def counter_in_closure():
    calls = [0]

    def run(x):
        calls[0] += 1
        return x * calls[0]

    return run


@factory(x="float[n,4]")
def nonlocal_counter():
    calls = 0

    def run(x):
        nonlocal calls
        calls += 1
        return x + calls

    return run


@factory(x="float[n,4]")
def results_by_size():
    known = {}

    def run(x):
        n = x.shape[0]
        if n not in known:
            known[n] = torch.arange(n).float() / n
        return x * known[n][:, None]

    return run


@factory(x="float[n,4]")
def cached_by_decorator():
    @functools.lru_cache(maxsize=8)
    def table(n):
        return torch.linspace(0, 1, n)

    def run(x):
        return x * table(x.shape[0])[:, None]

    return run


@factory(x="float[n,4]")
def cached_number():
    @functools.cache
    def scale(n):
        return sum(range(n)) / 10

    return lambda x: x + scale(x.shape[0])


@factory(x="float[n,4]")
def cached_and_called_before():
    @functools.cache
    def table(n):
        return torch.arange(n).float()

    table(5)
    table(7)
    return lambda x: x * table(len(x))[:, None]


@factory(x="float[n,4]")
def closure_over_tensor():
    weight = torch.randn(4, 3)
    return lambda x: x @ weight


@factory(x="float[n,4]")
def closure_over_number():
    scale = 2.5
    return lambda x: x * scale - scale


@factory(x="float[n,4]")
def last_seen_kept():
    last = []

    def run(x):
        last.append(x.mean(0))
        return x - last[-1]

    return run


@factory(x="float[n,4]")
def last_of_earlier_call():
    last = {"mean": torch.zeros(4)}

    def run(x):
        out = x - last["mean"]
        last["mean"] = x.mean(0)
        return out

    return run


@model(x="float[n,4]")
class BufferAdded(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x):
        return x - self.mean


@model(x="float[n,4]")
class BufferCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.steps += 1
        return x * self.steps


@model(x="float[n,4]")
class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


@model(x="float[n,4]")
class RunningMeanReplaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


@model(x="float[n,4]")
class FirstCallSetsUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = x.abs().mean() + 1
        return x / self.scale


@model(x="float[n,4]")
class DataDependentInit(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if not self.ready:
            self.shift.data = x.mean(0)
            self.ready.fill_(True)
        return x - self.shift


@model(x="float[b,n,4]", most=131)
class KeyCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = []

    def forward(self, x):
        self.keys.append(x)
        keys = torch.cat(self.keys, 1)
        return (x @ keys.mT).softmax(-1) @ keys


@model(x="float[b,n,4]", most=131)
class StaticCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 150, 4))

    def forward(self, x):
        keys = self.keys.expand(x.shape[0], -1, -1).clone()
        keys[:, : x.shape[1]] = x
        return x @ keys.mT


@model(x="float[n,4]")
class PositionsKept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("at", torch.arange(10), persistent=False)

    def forward(self, x):
        if self.at.shape[0] < x.shape[0]:
            self.at = torch.arange(x.shape[0])
        return x + self.at[: x.shape[0], None]


@model(x="float[n,4]")
class SeenLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, x):
        self.longest = max(self.longest, x.shape[0])
        return x * self.longest


@model(x="float[n,4]")
class ModeFlag(nn.Module):
    def forward(self, x):
        if self.training:
            return x * 0
        return x * 2


@model(x="float[n,4]")
class LazyLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)
        self.layer(torch.zeros(1, 4))

    def forward(self, x):
        return self.layer(x)


@model(x="float[n,4]")
class BuiltInForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict()

    def forward(self, x):
        name = f"scale_{x.shape[1]}"
        if name not in self.layers:
            layer = nn.Linear(x.shape[1], 2)
            nn.init.constant_(layer.weight, 0.3)
            nn.init.zeros_(layer.bias)
            self.layers[name] = layer
        return self.layers[name](x)


@factory(x="float[n,4]")
def generator_of_scales():
    def scales():
        k = 1.0
        while True:
            yield k
            k *= 2

    source = scales()
    return lambda x: x * next(source) + next(source)


@factory(x="float[n,4]")
def iterator_over_list():
    numbers = iter([0.5, 1.5, 2.5, 3.5])
    return lambda x: x * next(numbers)


@factory(x="float[n,4]")
def default_list_grows():
    def run(x, seen=[]):  # noqa: B006
        seen.append(x.shape[0])
        return x * len(seen) + sum(seen)

    return run


@factory(x="float[n,4]")
def attribute_of_function():
    def run(x):
        run.calls = getattr(run, "calls", 0) + 1
        return x / run.calls

    return run


@factory(x="float[n,4]")
def table_of_results_by_value():
    known = {}

    def run(x):
        key = int(x.sum() > 0)
        if key not in known:
            known[key] = x.mean() * key
        return x + known[key]

    return run


class Shared:
    scale = 3.0
    seen = 0


@factory(x="float[n,4]")
def class_attribute():
    class Own(Shared):
        pass

    def run(x):
        Own.seen += 1
        return x * Own.scale + Own.seen

    return run


@model(x="float[n,4]")
class InputWrittenTo(nn.Module):
    def forward(self, x):
        x += 1
        x[0] = 0
        return x * 2


@model(x="float[n,4]")
class ViewWrittenTo(nn.Module):
    def forward(self, x):
        y = x.clone()
        view = y.view(-1)[1:]
        view.mul_(2)
        y[:, 1].zero_()
        return y


@model(x="float[n,4]")
class TransposeWrittenTo(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.t()[0] += x.shape[0]
        y.flatten()[:4] = 7.0
        return y


@model(x="float[n,4]")
class WeightChanged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            self.layer.weight.mul_(0.5)
        return self.layer(x)
