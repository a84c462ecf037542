"""Writes to what began as a constant: reads before and after see what was there then."""

from __future__ import annotations

import torch
from writes import Written

written = Written()


@written
def a_new_tensor_with_traced_parts(x):
    m = torch.zeros(2, 2)
    m[0, 0] = x[0, 0]
    m[0, 1] = x.sum()
    m[1] = x[0, :2]
    return m, m.sum()


@written
def constants_written_between_reads(x):
    c = torch.ones(3)
    a = x[:, :3] * c
    c.mul_(2)
    b = x[:, :3] * c
    c[0] = 10
    d = x[:, :3] + c
    return a, b, d, c


@written
def constant_views_written(x):
    c = torch.zeros(2, 3)
    row = c[0]
    a = x[:, :3] + row
    c += 1
    b = x[:, :3] + row
    row.fill_(5)
    d = x[:, :3] + c[0] + c[1]
    c[0, 1] = x[0, 0]
    e = x[:, :3] + row
    return a, b, d, e, c


@written
def a_corner_of_constants(x):
    y = x.clone()
    corner = y[:, 1:3]
    corner.zero_()
    corner.add_(2).clamp_(-1, 1)
    y.mul_(3)
    y[:, 0] = 1
    edge = y[:, 0]
    edge += 1
    return y, corner, edge


@written
def a_whole_of_constants(x):
    y = x.clone()
    left, right = y[:, :3], y[:, 3:]
    y.fill_(2)
    y.add_(1)
    left[:, 0] = x[:, 0]
    right.mul_(2)
    return y, left, right


(
    test_a_write_at_fixed_sizes,
    test_a_write_at_other_sizes,
    test_a_write_recorded_with_a_batch_of_one,
) = written.tests()
