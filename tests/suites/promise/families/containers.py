"""Containers: dicts, dataclasses, named tuples, generators, zip and enumerate."""

from __future__ import annotations

import collections
import dataclasses
import operator
from functools import reduce
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn

from ..listing import model


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclasses.dataclass
class Batch:
    values: torch.Tensor
    mask: torch.Tensor


@model(x="float[n,4]", pack=lambda x: ({"x": x},))
def dict_given(inputs):
    return inputs["x"] * 2


@model(x="float[n,4]", y="float[m,4]", pack=lambda x, y: ({"b": x, "a": y},))
def dict_given_and_sorted(inputs):
    return torch.cat([inputs[key] for key in sorted(inputs)])


@model(x="float[n,4]", y="float[m,4]", pack=lambda x, y: ([x, y],))
def list_given(parts):
    return torch.cat(parts).cumsum(0), len(parts)


@model(x="float[n,4]", y="float[n,4]", pack=lambda x, y: (Pair(x, y),))
def named_tuple_given(pair):
    return Pair(pair.first + pair.second, pair.first * 2)


@model(x="float[n,4]", m="bool[n]", pack=lambda x, m: (Batch(x, m),))
def dataclass_given(batch):
    return batch.values[batch.mask].sum(0)


@model(x="float[n,4]", y="float[m,4]", pack=lambda x, y: ((x, {"y": [y]}),))
def nested_given(inputs):
    x, rest = inputs
    return x.sum(0) + rest["y"][0].sum(0)


@model(x="float[n,4]")
def dict_returned(x):
    return {"mean": x.mean(0), "rows": x.shape[0], "double": x * 2}


@model(x="float[n,4]")
def nested_returned(x):
    return {"a": [x, x + 1], "b": (x.sum(), {"c": x[0]})}


@model(x="float[n,4]")
def named_tuple_returned(x):
    return Pair(x, x.mean(0))


@model(x="float[n,4]")
def dataclass_returned(x):
    return Batch(x * 2, x > 0)


@model(x="float[n,4]")
def numbers_returned(x):
    return x, x.shape[0], x.shape[0] / 2, x.shape[0] > 3


@model(x="float[n,4]")
def none_among_results(x):
    return x, None, x * 2


@model(x="float[n,4]")
def generator_summed(x):
    return sum(x[:, i] * i for i in range(4))


@model(x="float[n,4]")
def zipped_columns(x):
    weights = [0.1, 0.2, 0.3, 0.4]
    return sum(w * c for w, c in zip(weights, x.unbind(1)))


@model(x="float[n,4]")
def enumerated_columns(x):
    return torch.stack([c * (i + 1) for i, c in enumerate(x.unbind(-1))], -1)


@model(x="float[n,4]")
def dict_comprehension(x):
    parts = {f"c{i}": x[:, i] for i in range(4)}
    return parts["c0"] - parts["c3"] + sum(parts.values())


@model(x="float[n,4]")
def default_dict(x):
    groups = collections.defaultdict(list)
    for i in range(4):
        groups[i % 2].append(x[:, i])
    return [torch.stack(columns, 1) for columns in groups.values()]


@model(x="float[n,4]")
def counter_of_sizes(x):
    count = collections.Counter([x.shape[0], 4, 5])
    return x * count[4] + count[5]


@model(x="float[n,4]")
def deque_of_rows(x):
    last = collections.deque(maxlen=3)
    for i in range(4):
        last.append(x[:, i])
    return torch.stack(list(last), 1)


@model(x="float[n,4]")
def ordered_dict(x):
    steps = collections.OrderedDict(a=torch.relu, b=torch.tanh, c=torch.neg)
    for step in steps.values():
        x = step(x)
    return x


@model(x="float[n,4]")
def reduced(x):
    return reduce(operator.mul, x.unbind(1))


@model(x="float[n,4]")
def mapped_and_filtered(x):
    columns = filter(lambda c: c.dim() == 1, map(torch.exp, x.clamp(max=3).unbind(1)))
    return torch.stack(list(columns), 1)


@model(x="float[n,4]")
def sorted_by_key(x):
    named = {"z": x[:, 0], "a": x[:, 1], "m": x[:, 2]}
    return torch.stack([v for _, v in sorted(named.items())], 1)


@model(x="float[n,4]")
def star_arguments(x):
    settings = {"scale": 2.0, "shift": 1.0}

    def joined(*parts, scale=1.0, **more):
        return torch.cat(parts, -1) * scale + more["shift"]

    return joined(*x.chunk(2, -1), **settings)


@model(x="float[n,4]")
def starred_unpacking(x):
    first, *middle, last = x.unbind(1)
    return first + last - sum(middle)


@model(x="float[n,4]")
def namespace(x):
    settings = SimpleNamespace(scale=0.5, power=2)
    return (x * settings.scale) ** settings.power


@model(x="float[n,4]")
def set_of_axes(x):
    return x.sum(tuple({0, 1})), x.permute(*reversed(range(x.dim())))


@model(x="float[n,4]")
def list_methods(x):
    parts = [x]
    parts.append(x * 2)
    parts.insert(0, x - 1)
    parts.extend([x.abs()])
    parts.reverse()
    parts.pop(1)
    return torch.cat(parts, 1)


@model(x="float[n,4]")
def grown_by_size(x):
    parts = []
    while len(parts) < x.shape[0] % 4 + 1:
        parts.append(x * len(parts))
    return torch.cat(parts)


@model(x="float[n,4]")
def list_times_size(x):
    return torch.cat([x[:1]] * x.shape[0])


@model(x="float[n,4]")
def slots_of_list(x):
    out = [None] * 4
    for i in (2, 0, 3, 1):
        out[i] = x[:, i] * i
    return torch.stack(out, 1)


@model(x="float[n,4]", y="float[n,4]", pack=lambda x, y: ([{"x": x}, {"x": y}],))
def records_given(records):
    return torch.stack([record["x"].sum(0) for record in records])


@model(x="float[n,4]")
class OutputClass(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        hidden = [x]
        hidden.append(self.layer(x))
        return Batch(values=hidden[-1], mask=hidden[0] > 0)


@model(x="float[n,4]")
def dict_updated(x):
    state = {"x": x, "k": 1}
    state |= {"k": state["k"] + x.shape[0]}
    state.setdefault("y", state["x"] * 2)
    return state.pop("y") * state["k"]


@model(x="float[n,4]")
def generator_with_state(x):
    def steps(v):
        while True:
            v = v * 0.5
            yield v

    halves = steps(x)
    return next(halves) + next(halves)


@model(x="float[n,4]", y="float[m,4]", pack=lambda x, y: (x, None, y))
def none_given(x, bias, y):
    return x.sum(0) + (0 if bias is None else bias) + y.mean(0)


@model(x="float[n,4]", pack=lambda x: (x, 3, "mean"))
def options_given(x, power, mode):
    y = x**power
    return y.mean(0) if mode == "mean" else y.sum(0)
