"""Questions with rare answers, and sizes that take long ways through Python."""

from __future__ import annotations

import bisect
import decimal
import json
import operator
import random
import statistics
import struct

import numpy as np
import torch

from ..listing import model


@model(x="float[b,n]")
def product_of_sizes_above(x):
    return x * 2 if x.shape[0] * x.shape[1] > 500 else x


@model(x="float[b,n]")
def sum_of_sizes_equals(x):
    return x * 2 if x.shape[0] + x.shape[1] == 20 else x


@model(x="float[b,n]")
def twice_as_wide(x):
    return x.flip(1) if x.shape[1] == 2 * x.shape[0] else x


@model(x="float[b,n]")
def both_above(x):
    if x.shape[0] > 6 and x.shape[1] > 6:
        return x + 1
    return x


@model(x="float[b,n]")
def one_of_them_is_one(x):
    if 1 in x.shape:
        return x * 3
    return x


@model(x="float[n,4]")
def exactly_fifty(x):
    return x + 1 if len(x) == 50 else x


@model(x="float[n,4]")
def exactly_a_thousand(x):
    return x + 1 if len(x) == 1000 else x


@model(x="float[n,4]")
def multiple_of_seventeen(x):
    return x + 1 if len(x) % 17 == 0 else x


@model(x="float[n,4]")
def multiple_of_sixty_four(x):
    if x.shape[0] % 64 == 0:
        return x.view(-1, 64, 4).mean(1)
    return x


@model(x="float[n,4]")
def between_two_limits(x):
    n = x.shape[0]
    return -x if n >= 11 and not n >= 14 else x


@model(x="float[n,4]")
def quotient_asked(x):
    return x * 2 if x.shape[0] // 10 == 3 else x


@model(x="float[n,4]")
def by_bisection(x):
    return x * bisect.bisect([3, 9, 40, 300], x.shape[0])


@model(x="float[n,4]")
def by_length_of_text(x):
    return x + len("x" * x.shape[0])


@model(x="float[n,4]")
def by_padded_text(x):
    return x + int(str(len(x)).zfill(4)[-2:])


@model(x="float[n,4]")
def by_formatted_text(x):
    return x * float(f"{x.shape[0]:.2e}")


@model(x="float[n,4]")
def by_evaluated_text(x):
    return x + eval(f"{x.shape[0]} + 1")


@model(x="float[n,4]")
def by_json(x):
    return x + json.loads(json.dumps({"n": x.shape[0]}))["n"]


@model(x="float[n,4]")
def by_decimal(x):
    return x * float(decimal.Decimal(x.shape[0]) / 4)


@model(x="float[n,4]")
def by_bytes(x):
    return x + len(bytes(x.shape[0])) + int.from_bytes(struct.pack("<I", x.shape[0]), "little")


@model(x="float[n,4]")
def by_hash(x):
    return x + hash((x.shape[0], 3)) % 5


@model(x="float[n,4]")
def by_bit_count(x):
    return x * x.shape[0].bit_length() + int(x.shape[0].__index__())


@model(x="float[n,4]")
def by_operator(x):
    return x + operator.index(x.shape[0]) + operator.floordiv(len(x), 2)


@model(x="float[n,4]")
def by_mean_of_range(x):
    return x * statistics.mean(range(x.shape[0]))


@model(x="float[n,4]")
def by_sum_of_range(x):
    return x + sum(range(x.shape[0]))


@model(x="float[n,4]")
def by_random_of_size(x):
    return x * random.Random(x.shape[0]).random()


@model(x="float[n,4]")
def by_numpy_array(x):
    return x + int(np.array([x.shape[0], 3]).sum()) + np.arange(x.shape[0]).sum().item()


@model(x="float[n,4]")
def by_narrow_numpy(x):
    return x + int(np.int32(x.shape[0]) * np.int32(2)) + float(np.float32(len(x)))


@model(x="float[n,4]")
def by_narrow_integer_that_wraps(x):
    return x + int(np.array([x.shape[0]]).astype(np.int8)[0])


@model(x="float[n,4]")
def by_tensor_that_wraps(x):
    return x + torch.tensor(x.shape[0]).to(torch.uint8)


@model(x="float[n,4]")
def by_list_of_that_length(x):
    return x + [0, 1, 2, 3][len([None] * x.shape[0]) % 4]


@model(x="float[n,4]")
def by_nested_lookup(x):
    table = {"short": 1.0, "long": 2.0}
    return x * table["short" if x.shape[0] < 17 else "long"]


@model(x="float[n,4]")
def by_exception(x):
    try:
        [10, 20, 30][x.shape[0]]
    except IndexError:
        return x * 2
    return x


@model(x="float[n,4]")
def by_zero_division(x):
    try:
        return x / (x.shape[0] - 9) * 1 // (1 // (x.shape[0] - 9) or 1)
    except ZeroDivisionError:
        return x


@model(x="float[n,4]")
def by_sorting_rule(x):
    return x * sorted([7, x.shape[0], 3], key=lambda n: -n)[0]


@model(x="float[n,4]")
def a_value_of_seventeen(x):
    return x * 0 if (x.round() == 17).any() else x


@model(x="float[n,4]")
def a_value_above_forty(x):
    return x.clamp(max=40) * 2 if x.max() > 40 else x * 2


@model(x="signed[n]")
def a_sum_of_three(x):
    return x * 10 if x.sum() == 3 else x


@model(m="bool[n]", x="float[n,4]")
def exactly_one_is_true(m, x):
    if m.sum() == 1:
        return x[m][0]
    return x.sum(0)


@model(m="bool[n]", x="float[n,4]")
def all_but_the_first(m, x):
    if m[1:].all() and not m[0]:
        return x * 0
    return x


@model(x="int[n]<100")
def one_id_is_special(x):
    return x * 0 if (x == 42).any() else x


@model(x="int[n]<100", k="int[]<100")
def one_value_is_special(x, k):
    return x * 2 if k.item() == 63 else x + k


@model(x="int[n]<100")
def duplicates_or_not(x):
    if len(x.unique()) == len(x):
        return x
    return x * 0


@model(x="int[b,n]<6")
def rows_that_are_equal(x):
    return (x == x[:1]).all(1).sum() if (x[0] == x[-1]).all() else x.sum()


@model(x="float[b,n]")
def in_order_or_not(x):
    return x * 2 if bool((x.diff(dim=1) > 0).all()) else x


@model(x="float[n,4]", y="float[m,4]")
def as_many_of_both(x, y):
    if x.shape == y.shape:
        return x * y
    return x.sum(0) * y.sum(0)


@model(x="float[n,4]", y="float[m,4]")
def broadcast_or_not(x, y):
    try:
        return x + y
    except RuntimeError:
        return x.mean(0, keepdim=True) + y


@model(x="float[b,n]")
def squeezed(x):
    return x.squeeze().sum(-1)


@model(x="float[b,n,4]")
def squeezed_first_axis(x):
    return x.squeeze(0) * 2


@model(x="float[n,4]", y="float[m,4]")
def expanded_if_single(x, y):
    if y.shape[0] == 1:
        y = y.expand_as(x)
    return x[: len(y)] * y[: len(x)]


@model(x="float[b,n]")
def reshape_that_fits(x):
    if x.numel() % 6 == 0:
        return x.reshape(-1, 6).sum(0)
    return x.sum() * torch.ones(6)
