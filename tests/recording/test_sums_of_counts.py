"""Questions whether a size and a count of what the data pick are 0 together."""

import torch
from torch.testing import assert_close

import hx
from hx.findings import OPEN


def beside_picked(x):
    picked = x[x[:, 0] > 0]
    if x.shape[0] + picked.shape[0] == 0:
        return x * 2
    return torch.cat([x, picked]).sum(0)


def test_only_an_empty_input_makes_both_zero():
    program = hx.export(beside_picked, (torch.randn(5, 3),), dynamic={"x": {0: "n"}})
    assert not [each for each in program.report.findings if each.level is OPEN]
    for n in (1, 2, 9, 100):
        for x in (torch.randn(n, 3), -torch.ones(n, 3)):
            assert_close(program.run(x), beside_picked(x))
