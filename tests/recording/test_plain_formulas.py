"""Plain formulas of a size in Python, which stay sizes in the graph."""

import math

import numpy as np
import pytest
import torch

import hx

FORMULAS = {
    "exclusive or": lambda n: n ^ 3,
    "or": lambda n: n | 8,
    "and": lambda n: n & 44,
    "and, on the right": lambda n: 6 & n,
    "rounded down": lambda n: n & ~7,
    "rounded up": lambda n: (n + 15) & -16,
    "or of a negative": lambda n: (n | -4) + 9,
    "divisor": lambda n: math.gcd(n, 12),
    "divisor of three": lambda n: math.gcd(n, 12, n + 4),
    "multiple": lambda n: math.lcm(n, 6),
    "numpy's divisor": lambda n: np.gcd(n, 4),
    "numpy's multiple": lambda n: np.lcm(4, n),
    "numpy's integer": lambda n: int(np.int64(n) // 2),
    "numpy's float": lambda n: int(np.float64(n) * 0.5),
    "whole": lambda n: 2 if (n / 4).is_integer() else 3,
    "lowest bit": lambda n: n & -n,
    "or of two": lambda n: n | (n >> 1),
    "exclusive or of two": lambda n: n ^ (n >> 1),
    "bits": lambda n: n.bit_length(),
    "ones": lambda n: n.bit_count(),
    "power of two": lambda n: 2 ** (n - 1).bit_length(),
    "pairs": lambda n: math.comb(n, 2),
    "triples": lambda n: math.comb(n, 3),
    "ordered pairs": lambda n: math.perm(n, 2),
    "factorial": lambda n: math.factorial(min(n, 6)),
    "tens": lambda n: round(n, -1),
    "hundreds": lambda n: round(n + 3, -2),
    "numpy's quotient and rest": lambda n: np.divmod(n, 4)[0] + 3 * np.divmod(n, 4)[1],
    "place": lambda n: int(np.searchsorted([2, 6, 20.5, 200], n)),
    "bin": lambda n: int(np.digitize(n, np.array([4, 8, 64]))),
    "fraction": lambda n: math.modf(n / 4)[0] + math.modf(n / 8)[1],
    "nearest remainder": lambda n: math.remainder(n, 7),
    "sum beside floats": lambda n: sum([0.5, n, 0.25]),
    "whole in two": lambda n: 2 if ((n + 2) / 3).is_integer() else n,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_of_a_size(name):
    formula = FORMULAS[name]

    def forward(x):
        return x * formula(x.shape[0])

    program = hx.export(forward, torch.ones(6, 2), dynamic={"x": {0: "n"}})
    assert not [e for e in program.report.escapes if not e.carried]
    for n in (1, 2, 3, 4, 7, 8, 12, 13, 36, 64, 100, 1000):
        x = torch.ones(n, 2)
        torch.testing.assert_close(program.run(x), forward(x))


def test_a_divisor_of_two_sizes_is_not_fixed_silently():
    with pytest.raises(hx.VerificationError, match=r"gcd\(n, m\)"):
        hx.export(
            lambda x: x * math.gcd(*x.shape), torch.ones(6, 4), dynamic={"x": {0: "n", 1: "m"}}
        )
