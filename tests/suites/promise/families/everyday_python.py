"""Python of every day between tensors: counters, lists, lookups, early ends, standard modules."""

from __future__ import annotations

import bisect
import collections
import contextlib
import copy
import enum
import functools
import heapq
import itertools
import math
import operator
import string
import struct
import warnings
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[n=9,4]", most=40)
def bisect_bucket(x):
    edges = [2, 5, 10, 20, 40]
    return x * bisect.bisect_left(edges, x.shape[0])


@model(x="float[n=9,4]", most=40)
def heap_largest(x):
    return x[sorted(heapq.nlargest(min(3, len(x)), range(len(x))))]


@model(x="float[n=9,4]", most=40)
def deque_window(x):
    window = collections.deque(maxlen=3)
    out = []
    for row in x:
        window.append(row)
        out.append(torch.stack(tuple(window)).mean(0))
    return torch.stack(out)


@model(x="float[n=9,4]", most=40)
def counter_rows(x):
    c = collections.Counter(i % 3 for i in range(x.shape[0]))
    return x.sum() * c[0] + c[1] - c[2]


@model(x="float[n=9,4]", most=40)
def index_of_size(x):
    sizes = [4, 9, 16, 25]
    try:
        k = sizes.index(x.shape[0])
    except ValueError:
        k = -1
    return x + k


@model(x="float[n=9,4]", most=40)
def size_in_set(x):
    return x.flip(0) if x.shape[0] in {3, 9, 12} else x


@model(x="float[n=9,4]", most=40)
def match_statement(x):
    match x.shape[0] % 3:
        case 0:
            return x + 1
        case 1:
            return x * 2
        case _:
            return x - 3


class Mode(enum.IntEnum):
    SMALL = 0
    LARGE = 1


@model(x="float[n=9,4]", most=40)
def enum_of_size(x):
    mode = Mode(int(x.shape[0] > 12))
    return x * 10 if mode is Mode.LARGE else x


@model(x="float[n=9,4]", most=40)
def fraction_of_size(x):
    f = Fraction(x.shape[0], 6)
    return x * float(f) + f.denominator


@model(x="float[n=9,4]", most=40)
def bits_of_size(x):
    n = x.shape[0]
    return x * bin(n).count("1") + n.bit_length()


@model(x="float[n=9,4]", most=40)
def digits_of_size(x):
    return x + sum(int(d) for d in str(x.shape[0]))


@model(x="float[n=9,4]", most=40)
def letters(x):
    name = string.ascii_lowercase[x.shape[0] % 26]
    return x + ord(name)


@model(x="float[n=9,4]", most=40)
def packed_struct(x):
    (n,) = struct.unpack("<i", struct.pack("<i", x.shape[0]))
    return x + n


@model(x="float[n=9,4]", most=40)
def counted_total(x):
    total = 0
    for i in range(x.shape[0]):
        total += i * i
    return x + total


@model(x="float[n=9,4]", most=40)
def counted_offset(x):
    at, out = 0, []
    for k in (1, 2, 3):
        out.append(x[at : at + k].sum(0))
        at += k
    rest = x.shape[0] - at
    return torch.stack(out) * rest


@model(x="float[n=9,4]", most=40)
def fibonacci(x):
    a, b = 0, 1
    for _ in range(x.shape[0] % 12):
        a, b = b, a + b
    return x + a


@model(x="float[n=9,4]", most=40)
def list_of_sizes(x):
    scales = [x.shape[0] // 2**i for i in range(4)]
    return torch.stack([x.sum() * s for s in scales if s > 0])


@model(x="float[n=9,4]", most=40)
def dict_by_size(x):
    table = {i: i * 0.5 for i in range(64)}
    return x * table.get(x.shape[0], -1.0)


@model(x="float[n=9,4]", most=40)
def string_key(x):
    table = {"9": 1.0, "12": 2.0}
    return x * table.get(f"{x.shape[0]}", 3.0)


class Registry(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"head{i}", nn.Linear(4, 2))

    def forward(self, x):
        return getattr(self, f"head{x.shape[0] % 3}")(x)


model(x="float[n=9,4]", most=40)(Registry)


@model(x="float[n=9,4]", most=40)
class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.calls += 1
        self.seen += x.sum(0)
        return x * self.calls + self.seen


@model(x="float[n=9,4]", most=40)
class Nonlocal(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = self.make()

    @staticmethod
    def make():
        n = 0

        def step(x):
            nonlocal n
            n += 1
            return x + n

        return step

    def forward(self, x):
        return self.step(self.step(x))


@model(x="float[n=9,4]", most=40)
def inplace_views(x):
    y = x.clone()
    a, b = y[: len(y) // 2], y[len(y) // 2 :]
    a += 1
    b *= 2
    y[::2].sub_(3)
    y.T[0].zero_()
    return y


@model(x="float[n=9,4]", most=40)
def numpy_inplace(x):
    y = x.clone()
    a = y.numpy()
    a[:, 0] = 7
    a += 1
    return y


@model(x="float[n=9,4]", most=40)
def masked_rows(x):
    keep = x.sum(1) > 0
    y = x[keep]
    y = y - y.mean() if y.shape[0] > 0 else y
    out = torch.zeros_like(x)
    out[keep] = y
    return out


@model(x="float[n=9,4]", most=40)
def branch_on_count(x):
    k = int((x > 0).sum())
    if k > x.numel() // 2:
        return x.exp()
    return x.sin()


@model(x="float[n=9,4]", most=40)
def branch_on_mean(x):
    if x.mean() > 0:
        return x - x.mean()
    elif x.std() > 1.0:
        return x / x.std()
    return x


@model(x="float[n=9,4]", most=40)
def newton(x):
    y = x.abs() + 1
    g = y.clone()
    for _ in range(20):
        new = 0.5 * (g + y / g)
        if (new - g).abs().max() < 1e-6:
            break
        g = new
    return g


@model(x="float[n=9,4]", most=40)
def power_iteration(x):
    a = x.T @ x
    v = torch.ones(4) / 2
    while True:
        w = a @ v
        w = w / (w.norm() + 1e-9)
        if torch.dist(w, v) < 1e-3:
            return w
        v = w


@model(x="float[n=9,4]", most=40)
def try_solve(x):
    a = x.T @ x
    try:
        c = torch.linalg.cholesky(a)
    except Exception:
        c = torch.eye(4)
    return x @ c


@model(x="float[n=9,4]", most=40)
def suppress(x):
    y = x
    with contextlib.suppress(IndexError):
        y = x + x[10]
    return y


@model(x="float[n=9,4]", most=40)
def warns(x):
    if x.shape[0] < 4:
        warnings.warn(f"only {x.shape[0]} rows", stacklevel=2)
        return F.pad(x, (0, 0, 0, 4 - x.shape[0]))
    return x[:4]


@model(x="float[n=9,4]", most=40)
def sorted_by_value(x):
    rows = sorted(x.tolist(), key=lambda r: r[0])
    return torch.tensor(rows)


@model(x="float[n=9,4]", most=40)
def max_by_norm(x):
    return max(x, key=lambda r: float(r.norm()))


@model(x="float[n=9,4]", most=40)
def python_sum(x):
    return sum(x) / len(x)


@model(x="float[n=9,4]", most=40)
def zip_shift(x):
    return torch.stack([a * b for a, b in zip(x, [*x[1:], x[0]])])


@model(x="float[n=9,4]", most=40)
def nested_lists(x):
    grid = [[x[i] + x[j] for j in range(2)] for i in range(len(x))]
    return torch.stack([torch.stack(r) for r in grid])


@model(x="float[n=9,4]", most=40)
def chunked_loop(x):
    out = []
    for s in range(0, x.shape[0], 4):
        c = x[s : s + 4]
        out.append(c - c.mean(0))
    return torch.cat(out)


@model(x="float[n=9,4]", most=40)
def chunk_count(x):
    parts = x.chunk(4)
    return torch.stack([p.sum(0) for p in parts]) * len(parts)


@model(x="float[n=9,4]", most=40)
def last_of_chunks(x):
    *front, last = x.split(4)
    return last.sum() + len(front)


@model(x="float[n=9,4]", most=40)
def early_return_loop(x):
    for i in range(x.shape[0]):
        if x[i].sum() > 2:
            return x[i] * i
    return x[0]


@model(x="float[n=9,4]", most=40)
def for_else(x):
    for i, row in enumerate(x):
        if row[0] > 2.5:
            y = row * i
            break
    else:
        y = x.mean(0)
    return y


@model(x="float[n=9,4]", most=40)
def continue_rows(x):
    total = torch.zeros(4)
    for row in x:
        if row.sum() < 0:
            continue
        total = total + row
    return total


@model(x="float[n=9,4]", most=40)
def counting_rows(x):
    count = 0
    total = torch.zeros(4)
    for row in x:
        if row.sum() > 0:
            total += row
            count += 1
    return total / max(count, 1)


@model(x="float[n=9,4]", most=40)
def filtered_list(x):
    rows = [r for r in x if r.sum() > 0]
    return torch.stack(rows).sum(0) if rows else torch.zeros(4)


@model(x="float[n=9,4]", most=40)
def best_so_far(x):
    best, at = -float("inf"), -1
    for i, row in enumerate(x):
        s = row.sum().item()
        if s > best:
            best, at = s, i
    return x[at] + at


@model(ids="int[n=9]<5", most=40)
def run_lengths(ids):
    out, run = [], 0
    for a, b in zip(ids[:-1], ids[1:]):
        run = run + 1 if a == b else 0
        out.append(run)
    return torch.tensor(out + [run])


@model(ids="int[b=2,n=9]<5", most=40)
def first_eos(ids):
    """The place of the first end of sequence in each row, else the length."""
    eos = ids == 2
    at = eos.int().argmax(-1)
    return torch.where(eos.any(-1), at, ids.shape[-1])


@model(ids="int[b=2,n=9]<5", most=40)
def no_repeat_ngrams(ids):
    b, n = ids.shape
    if n < 2:
        return torch.zeros(b, 5, dtype=torch.bool)
    last = ids[:, -1:]
    hit = ids[:, :-1] == last
    nxt = ids[:, 1:]
    banned = torch.zeros(b, 5, dtype=torch.bool)
    return banned.scatter_(1, torch.where(hit, nxt, nxt[:, :1]), hit)


@model(x="float[b=3,n=9,4]", most=40)
def per_sample(x):
    return torch.stack([F.softmax(s @ s.T, -1) @ s for s in x])


@model(x="float[b=3,n=9,4]", most=40)
def vmapped(x):
    return torch.vmap(lambda s: s - s.mean(0))(x)


@model(x="float[b=3,n=9,4]", most=40)
def deep_copied(x):
    y = copy.deepcopy(x)
    y[0] = 0
    return y + x


@model(x="float[b=3,n=9,4]", most=40)
def partial_calls(x):
    f = functools.partial(torch.sum, dim=-1, keepdim=True)
    g = operator.methodcaller("transpose", 1, 2)
    return g(x) * f(x).transpose(1, 2)


@model(x="float[b=3,n=9,4]", most=40)
def shape_arith(x):
    b, n, d = x.size()
    heads = max(1, d // 2)
    return x.reshape(b * heads, -1).view(b, heads, -1).mean(-1) * (n**0.5) / math.log(n + 1)


@model(x="float[b=3,n=9,4]", most=40)
def ceil_floor(x):
    n = x.shape[1]
    k = math.ceil(n / 3)
    return F.pad(x, (0, 0, 0, k * 3 - n)).view(x.shape[0], 3, k, 4).sum(1), torch.tensor(
        math.floor(-n / 2)
    )


@model(x="float[b=3,n=9,4]", most=40)
def isclose_size(x):
    n = x.shape[1]
    return x if math.isclose(n / 3, round(n / 3)) else -x


@model(x="float[b=3,n=9,4]", most=40)
def power_of_two(x):
    n = x.shape[1]
    p = 1 << (n - 1).bit_length()
    return F.pad(x, (0, 0, 0, p - n))


@model(x="float[b=3,n=9,4]", most=40)
def is_power(x):
    n = x.shape[1]
    return x * 2 if n & (n - 1) == 0 else x


@model(x="float[b=3,n=9,4]", most=40)
def divisors(x):
    n = x.shape[1]
    for k in (4, 3, 2):
        if n % k == 0:
            return x.view(x.shape[0], k, n // k, 4).mean(1)
    return x


@model(x="float[b=3,n=9,4]", most=40)
def prime_size(x):
    n = x.shape[1]
    prime = n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))
    return x * (2 if prime else 1)


@model(x="float[b=3,n=9,4]", most=40)
def grouped(x):
    groups = itertools.groupby(range(x.shape[1]), key=lambda i: i // 4)
    return torch.stack([x[:, [*g]].sum(1) for _, g in groups], 1)


@model(x="float[b=3,n=9,4]", most=40)
def islice_rows(x):
    return torch.stack([*itertools.islice(x.unbind(1), 0, None, 2)], 1)


@model(x="float[b=3,n=9,4]", most=40)
def cycle_weights(x):
    w = [w for w, _ in zip(itertools.cycle([1.0, 0.5, 0.25]), range(x.shape[1]))]
    return x * torch.tensor(w)[None, :, None]


@model(x="float[b=3,n=9,4]", most=40)
def np_random_fixed(x):
    rng = np.random.RandomState(0)
    w = rng.rand(4).astype(np.float32)
    return x * torch.from_numpy(w)


@model(x="float[b=3,n=9,4]", most=40)
def np_perm_by_size(x):
    rng = np.random.RandomState(0)
    return x[:, rng.permutation(x.shape[1])]


@model(x="float[b=3,n=9,4]", most=40)
def generator_by_size(x):
    g = torch.Generator().manual_seed(0)
    return x[:, torch.randperm(x.shape[1], generator=g)]


@model(x="float[b=3,n=9,4]", most=40)
def autograd_saliency(x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        (g,) = torch.autograd.grad((x**3).sum(), x)
    return g


@model(x="float[b=3,n=9,4]", most=40)
def hashable_shape(x):
    cache = {(3, 9, 4): 1.0, (2, 8, 4): 2.0}
    return x * cache.get(tuple(x.shape), 0.5)


@model(x="float[b=3,n=9,4]", most=40)
def shape_equality(x):
    return x + 1 if x.shape == (3, 9, 4) else x - 1


@model(x="float[b=3,n=9,4]", most=40)
def shape_compare(x):
    return x + 1 if x.shape[:2] < (3, 5) else x - 1


@model(x="float[b=3,n=9,4]", most=40)
def numel_branch(x):
    return x.half().float() if x.numel() > 500 else x


@model(x="float[b=3,n=9,4]", most=40)
def stride_use(x):
    y = x.transpose(0, 1)
    return y * y.stride(0) + y.storage_offset() + y.is_contiguous()


@model(x="float[b=3,n=9,4]", most=40)
def as_strided_windows(x):
    x = x.contiguous()
    b, n, d = x.shape
    return torch.as_strided(x, (b, max(n - 2, 1), min(3, n), d), (n * d, d, d, 1)).mean(2)


@model(x="float[b=3,n=9,4]", most=40)
def nbytes_scale(x):
    return x / (x.nbytes / 1024)


@model(x="float[b=3,n=9,4]", most=40)
def element_size(x):
    return x * (x.untyped_storage().nbytes() // x.element_size())
