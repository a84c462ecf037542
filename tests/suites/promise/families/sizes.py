"""Sizes in plain Python: len, range, lookups, texts, divmod, bits, comparisons that end in errors."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..listing import model


@model(x="float[n,4]")
def length_as_divisor(x):
    return x.sum(0) / len(x)


@model(x="float[b,n,4]")
def longest_of_both(x):
    return x * max(x.shape[0], x.shape[1]) - min(x.shape[:2])


@model(x="float[n,4]")
def small_or_large_batch(x):
    if len(x) > 64:
        return x.mean(0)
    return x.sum(0)


@model(x="float[n,4]")
def chain_of_comparisons(x):
    n = x.shape[0]
    if n < 3:
        return x + 1
    if n < 10:
        return x * 2
    if n < 100:
        return x - 3
    if n < 500:
        return -x
    raise ValueError("too many rows")


@model(x="float[n,4]")
def scale_from_dict(x):
    scales = {1: 0.5, 2: 0.7, 5: 0.9, 7: 1.1}
    return x * scales.get(len(x), 1.0)


@model(x="float[n,4]")
def scale_from_dict_or_error(x):
    return x * {1: 0.5, 5: 0.9, 7: 1.1, 33: 2.0}[x.size(0)]


@model(x="float[n,4]")
def factor_from_list(x):
    factors = [1.0, 0.5, 0.25, 2.0, 4.0, 8.0, 3.0, 9.0]
    return x * factors[x.shape[0] % len(factors)]


@model(x="float[n,4]")
def size_through_f_string(x):
    return x + int(f"{len(x)}")


@model(x="float[n,4]")
def digits_of_size(x):
    return x * len(str(x.shape[0]))


@model(x="float[n,4]")
def sum_of_digits(x):
    return x + sum(int(c) for c in str(x.shape[0]))


@model(x="float[n,4]")
def keyed_by_f_string(x):
    table = {"rows_1": 10.0, "rows_5": 20.0, "rows_33": 30.0}
    return x + table.get(f"rows_{x.shape[0]}", 0.0)


@model(x="float[n,4]")
def quotient_and_rest(x):
    q, r = divmod(x.shape[0], 3)
    return x * q + r


@model(x="float[n,4]")
def padded_to_multiple(x):
    rest = x.shape[0] % 8
    if rest:
        x = F.pad(x, (0, 0, 0, 8 - rest))
    return x.reshape(-1, 8, 4).sum(1)


@model(x="float[b,n]")
def padded_to_power_of_two(x):
    n = 1 << (x.shape[1] - 1).bit_length()
    return F.pad(x, (0, n - x.shape[1]))


@model(x="float[n,4]")
def low_bits(x):
    n = x.shape[0]
    return x * (n & 3) + (n >> 2) - (n | 1) + (n ^ 5)


@model(x="float[n,4]")
def odd_or_even(x):
    return x[::2] if x.shape[0] & 1 else x[1::2]


@model(x="float[n,4]")
def is_power_of_two(x):
    n = len(x)
    return x * 2 if n & (n - 1) == 0 else x * 3


@model(x="float[n,4]")
def capped_rows(x):
    return x[: min(len(x), 20)].sum(0)


@model(x="float[n,4]")
def last_rows(x):
    return x[-min(x.shape[0], 3) :]


@model(x="float[n,4]")
def all_but_a_third(x):
    return x[x.shape[0] // 3 :]


@model(x="float[n,4]")
def middle_row(x):
    return x[len(x) // 2]


@model(x="float[n,4]")
def steps_of_size(x):
    return x[:: max(1, len(x) // 4)]


@model(x="float[n,4]")
def range_membership(x):
    return x + 1 if x.shape[0] in range(2, 50, 3) else x - 1


@model(x="float[n,4]")
def set_membership(x):
    return x.relu() if x.shape[0] in {1, 5, 64, 257} else x.tanh()


@model(x="float[b,n]")
def equal_sizes_or_not(x):
    if x.shape[0] == x.shape[1]:
        return x + x.t()
    return x * 2


@model(x="float[b,n]")
def wide_or_tall(x):
    b, n = x.shape
    return x.sum(1) if n > b else x.sum(0)


@model(x="float[n,4]")
def try_view_except_pad(x):
    try:
        return x.view(-1, 2, 4).sum(1)
    except RuntimeError:
        return F.pad(x, (0, 0, 0, 1)).view(-1, 2, 4).sum(1)


@model(x="float[n,4]")
def try_lookup_except_default(x):
    names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    try:
        at = names.index("abcdefgh"[x.shape[0]])
    except IndexError:
        at = 100
    return x + at


@model(x="float[n,4]")
def asserted_size(x):
    assert 2 <= len(x) <= 120, "2 to 120 rows"
    return x - x.mean(0)


@model(x="float[n,4]")
def chained_comparison(x):
    return x * 10 if 3 < x.shape[0] <= 33 else x / 10


@model(x="float[b,n]")
def any_of_sizes(x):
    return x + 1 if any(s > 50 for s in x.shape) else x - 1


@model(x="float[b,n]")
def all_of_sizes(x):
    return x + 1 if all(s % 2 for s in x.shape) else x - 1


@model(x="float[b,n]")
def sorted_sizes(x):
    low, high = sorted(x.shape)
    return x * low + high


@model(x="float[b,n]")
def shape_as_tuple_key(x):
    known = {(1, 1): 1.0, (3, 5): 2.0, (7, 7): 3.0, (33, 33): 4.0}
    return x * known.get(tuple(x.shape), 5.0)


@model(x="float[b,n]")
def elements_counted(x):
    return x.flatten() / x.numel()


@model(x="float[n,4]")
def round_up_division(x):
    chunks = -(-x.shape[0] // 3)
    return F.pad(x, (0, 0, 0, chunks * 3 - x.shape[0])).view(chunks, 3, 4).amax(1)


@model(x="float[n,4]")
def size_as_bool(x):
    rest = x.shape[0] % 5
    return x + (1.0 if rest else -1.0)


@model(x="float[n,4]")
def not_size(x):
    return x * (2 if not x.shape[0] % 4 else 3)


@model(x="float[n,4]")
def match_on_size(x):
    match len(x):
        case 1:
            return x * 2
        case 5 | 7:
            return x * 3
        case n if n > 100:
            return x * n
        case _:
            return x


@model(x="float[n,4]")
def power_of_size(x):
    return x * x.shape[0] ** 2 + x.shape[0] ** 0.5 - 2 ** (x.shape[0] % 7)


@model(x="float[n,4]")
def clamped_size(x):
    n = max(4, min(x.shape[0], 32))
    return F.interpolate(x.t()[None], size=n)[0]


@model(x="float[n,4]")
def walrus(x):
    if (n := x.shape[0]) > 30 and (half := n // 2) % 2 == 0:
        return x[:half]
    return x


@model(x="float[n,4]")
def hex_of_size(x):
    return x + int(hex(x.shape[0]), 16) + int(bin(x.shape[0])[2:], 2)


@model(x="float[n,4]")
def ones_in_size(x):
    return x * bin(len(x)).count("1")


@model(x="float[n,4]")
def rounded_share(x):
    k = round(len(x) * 0.3) or 1
    return x[:k].sum(0)


@model(x="float[n,4]")
def int_of_share(x):
    k = int(len(x) * 0.75)
    return x[:k].sum(0)


@model(x="float[n,4]")
def size_difference_abs(x):
    return x + abs(x.shape[0] - 20)


@model(x="float[b,n,m]")
def unpacked_shape(x):
    b, *rest = x.shape
    area = 1
    for r in rest:
        area *= r
    return x.reshape(b, area) / area


@model(x="float[n,4]")
def last_of_range(x):
    return x * list(range(0, x.shape[0], 3))[-1]


@model(x="float[n,4]")
def length_of_range(x):
    return x + len(range(1, x.shape[0], 4))


@model(x="float[n,4]", y="float[m,4]")
def longer_of_two(x, y):
    if len(x) >= len(y):
        return x[: len(y)] + y
    return x + y[: len(x)]


@model(x="float[n,4]", y="float[m,4]")
def padded_alike(x, y):
    n = max(len(x), len(y))
    return F.pad(x, (0, 0, 0, n - len(x))) + F.pad(y, (0, 0, 0, n - len(y)))


@model(x="float[n,4]")
def bucketed_length(x):
    for bucket in (8, 16, 64, 256):
        if len(x) <= bucket:
            return F.pad(x, (0, 0, 0, bucket - len(x)))
    raise ValueError("no bucket is large enough")


@model(x="float[n,4]")
def next_bucket(x):
    bucket = next(b for b in (8, 16, 32, 64, 128, 256, 512, 1024) if b >= len(x))
    return x * bucket


@model(x="float[n,4]")
def sized_weights(x):
    w = torch.arange(len(x), 0, -1) / len(x)
    return (x * w[:, None]).sum(0)
