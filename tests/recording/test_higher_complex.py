"""Complex numbers that go into functions that are given to others, go round in them, and come out."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop

import hx

WEIGHT = torch.randn(6, 4, dtype=torch.complex64)


def turned(x):
    return torch.complex(x, x * 2)


def made_within(x):
    return torch.vmap(lambda row: WEIGHT @ row.to(WEIGHT.dtype))(x)


def along_another_axis(x):
    return torch.vmap(lambda z: (z * 1j).cumsum(0), in_dims=1, out_dims=1)(turned(x))


def of_two(x):
    z = turned(x)

    def both(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]

    return associative_scan(both, (torch.full_like(z, 0.3 + 0.2j), z), 0, combine_mode="generic")[1]


def carried(x):
    def step(before, z):
        return before * (0.5 + 0.1j) + z, before * z

    return scan(step, torch.zeros(4, dtype=torch.complex64), turned(x))[1]


def chosen(x):
    return torch.cond(x.sum() > 0, lambda z: z * 1j, lambda z: z.conj().clone(), (turned(x),))


def going_round(x):
    return while_loop(
        lambda i, z: i < 3, lambda i, z: (i + 1, z * (0.5 + 1j)), (torch.tensor(0), turned(x))
    )[1]


@pytest.mark.parametrize(
    "function", [made_within, along_another_axis, of_two, carried, chosen, going_round]
)
def test_complex_numbers_cross_the_border_of_a_body(function):
    def model(x):
        return torch.view_as_real(function(x))

    program = hx.export(model, torch.randn(5, 4), dynamic={"x": {0: "n"}})
    assert {"Scan", "If", "Loop"} & {node.op_type for node in program.model.graph}
    for n in (1, 5, 8):
        x = torch.randn(n, 4)
        for given in (x, -x):
            torch.testing.assert_close(program.run(given), model(given), rtol=1e-5, atol=1e-5)
