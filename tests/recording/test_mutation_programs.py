"""Views and writes in any order: programs drawn by chance, the same at each run of the tests."""

from __future__ import annotations

import random

import pytest
import torch

# Each draws what it needs from `r`, and returns a new tensor of the pool or None.
VIEWS = [
    lambda t, r: t.transpose(0, -1),
    lambda t, r: t[..., 1:],
    lambda t, r: t[..., ::2],
    lambda t, r: t.unsqueeze(r.randrange(2)),
    lambda t, r: t.select(-1, 0),
    lambda t, r: t.narrow(-1, 0, 1),
    lambda t, r: t.detach(),
    lambda t, r: t.data,
    lambda t, r: t.movedim(0, -1),
    lambda t, r: t.permute(*reversed(range(t.dim()))),
    lambda t, r: t.unflatten(-1, (-1, 1)),
    lambda t, r: t.diagonal(0, 0, -1) if t.dim() > 1 else t.view(-1),
    lambda t, r: t.reshape(-1).clone(),
    lambda t, r: t.clone(),
]
WRITES = [
    lambda t, r: t.add_(1),
    lambda t, r: t.mul_(2),
    lambda t, r: t.neg_(),
    lambda t, r: t.clamp_(-1, 1),
    lambda t, r: t.zero_(),
    lambda t, r: t.fill_(r.random()),
    lambda t, r: t.copy_(t * 3 + 1),
    lambda t, r: t.__setitem__((..., 0), r.random()),
    lambda t, r: t.__setitem__((..., slice(-1, None)), t[..., :1] * 2),
    lambda t, r: t.__setitem__((..., slice(None, None, 2)), 4.0),
    lambda t, r: t.__setitem__(t > 0.5, 0.25),
    lambda t, r: t.masked_fill_(t < -1, -1.0),
    lambda t, r: torch.mul(t, 0.5, out=t),
    lambda t, r: t.unsqueeze_(0),
    lambda t, r: t.transpose_(0, -1),
    lambda t, r: t.cumsum_(-1),
]


def program(seed):
    def run(x):
        r = random.Random(seed)
        table = torch.arange(6.0) * torch.ones(3, 1)
        pool, seen = [x * 1, table], []
        for _ in range(r.randint(4, 12)):
            tensor = r.choice(pool)
            kind = r.choice("vwwr")
            if kind == "v":
                made = r.choice(VIEWS)(tensor, r)
                if 0 < made.dim() < 5:
                    pool.append(made)
            elif kind == "w":
                r.choice(WRITES)(tensor, r)
            else:
                seen.append(tensor * 1)
                table[..., -1] = x[0, 0]
        return pool + seen

    return run


@pytest.mark.parametrize("seed", range(40))
def test_a_program(proved, seed):
    run = program(seed)
    proved(run, torch.randn(3, 6))
    proved(run, torch.randn(3, 6), {"x": {0: "b"}}, [{"b": 5}])
    proved(run, torch.randn(1, 6), {"x": {0: "b", 1: "n"}}, [{"b": 3, "n": 4}])
