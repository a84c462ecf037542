"""Sizes that leave the recording as texts, and what Python computes of them then."""

from __future__ import annotations

import functools
import json
import math
import pickle

import torch

from ..listing import model


def lost(size):
    """Return the same number, as a text that compiled code writes gives it back."""
    return json.loads(json.dumps(size))


def listed(**described):
    """List a function of sizes: its number is added to the first input."""

    def of(function):
        def run(*tensors):
            sizes = {}
            for tensor, text in zip(tensors, described.values()):
                words = text.partition("[")[2].rstrip("]").split(",")
                sizes |= {w: lost(n) for w, n in zip(words, tensor.shape) if w.isalpha()}
            return tensors[0] + function(**sizes)

        model(**described)(functools.wraps(function)(run))
        return function

    return of


@listed(x="float[n,4]")
def itself(n):
    return n


@listed(x="float[n,4]")
def square(n):
    return n * n


@listed(x="float[n,4]")
def remainder_of_hundred(n):
    return n % 100


@listed(x="float[n,4]")
def remainder_of_seven(n):
    return n % 7


@listed(x="float[n,4]")
def remainder_of_large_number(n):
    return n % 300


@listed(x="float[n,4]")
def second_digit(n):
    return n // 10 % 10


@listed(x="float[n,4]")
def at_most_seventy(n):
    return min(n, 70)


@listed(x="float[n,4]")
def at_most_nine_hundred(n):
    return min(n, 900)


@listed(x="float[n,4]")
def at_least_twelve(n):
    return max(n, 12)


@listed(x="float[n,4]")
def zero_beyond_five_hundred(n):
    return n if n < 500 else 0


@listed(x="float[n,4]")
def another_slope_beyond(n):
    return n if n < 40 else 2 * n - 40


@listed(x="float[n,4]")
def whole_root(n):
    return math.isqrt(n)


@listed(x="float[n,4]")
def binary_digits(n):
    return n.bit_length()


@listed(x="float[n,4]")
def rounded_up_to_eight(n):
    return -(-n // 8) * 8


@listed(x="float[n,4]")
def rounded_to_tens(n):
    return round(n, -1)


@listed(x="float[n,4]")
def two_thirds(n):
    return 2 * n // 3


@listed(x="float[n,4]")
def ninety_five_percent(n):
    return int(n * 0.95)


@listed(x="float[n,4]")
def three_and_a_half_percent(n):
    return math.ceil(n * 0.035)


@listed(x="float[n,4]")
def triangular(n):
    return n * (n + 1) // 2


@listed(x="float[n,4]")
def parity(n):
    return n % 2


@listed(x="float[n,4]")
def prime_or_not(n):
    return int(n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1)))


@listed(x="float[n,4]")
def divisors(n):
    return sum(n % k == 0 for k in range(1, n + 1))


@listed(x="float[n,4]")
def bits_swapped(n):
    return n ^ 1


@listed(x="float[n,4]")
def gray_code(n):
    return n ^ (n >> 1)


@listed(x="float[n,4]")
def one_only_at_sixty_four(n):
    return int(n == 64)


@listed(x="float[n,4]")
def one_only_above_three_hundred(n):
    return int(n > 300)


@listed(x="float[n,4]")
def turned_around(n):
    return int(str(n)[::-1])


@listed(x="float[b,n]")
def product(b, n):
    return b * n


@listed(x="float[b,n]")
def larger_one(b, n):
    return max(b, n)


@listed(x="float[b,n]")
def difference(b, n):
    return abs(b - n)


@listed(x="float[b,n]")
def divisor_of_both(b, n):
    return math.gcd(b, n)


@listed(x="float[b,n]")
def shares(b, n):
    return n // b


@listed(x="float[b,n]")
def remainders_of_both(b, n):
    return n % (b + 1)


@listed(x="float[b,n]")
def equal_or_not(b, n):
    return int(b == n)


@listed(x="float[n,4]", y="float[m,4]")
def capped_sum(n, m):
    return min(n + m, 60)


@listed(x="float[n,4]", y="float[m,4]")
def product_of_other_parts(n, m):
    return (n // 2) * (m % 3)


@model(x="float[n,4]")
def rows_up_to(x):
    return x[: lost(x.shape[0]) // 2 + 1].sum(0)


@model(x="float[n,4]")
def rows_of_capped_count(x):
    return x[: min(lost(x.shape[0]), 40)].sum(0)


@model(x="float[n,4]")
def table_of_that_length(x):
    return x * torch.arange(lost(x.shape[0]))[:, None]


@model(x="float[n,4]")
def weights_from_list(x):
    return x * torch.tensor([1.0 / (i + 1) for i in range(lost(x.shape[0]))])[:, None]


@model(x="float[n,4]")
def kernel_of_that_size(x):
    k = lost(x.shape[0]) // 3 + 1
    return torch.nn.functional.avg_pool1d(x.t()[None], k, 1)[0]


@model(x="float[n,4]")
def shifted_by_part(x):
    return x.roll(lost(x.shape[0]) // 3, 0)


@model(x="float[n,4]")
def largest_value_as_text(x):
    return x / (abs(float(str(x.max().item()))) + 1)


@model(x="float[n,4]")
def count_as_text(x):
    return x * int(f"{int((x > 0).sum()):d}".strip())


@model(x="float[n,4]")
def values_as_json(x):
    return x + torch.tensor(json.loads(json.dumps(x[0].tolist())))


@model(x="float[n,4]")
def values_pickled(x):
    return x + pickle.loads(pickle.dumps(x.mean(0)))


@model(x="float[n,4]")
def size_pickled(x):
    return x + pickle.loads(pickle.dumps(x.shape))[0]


@model(x="float[n,4]")
def tensor_printed(x):
    return x * len(str(x.shape[0])) + len(repr(list(range(x.shape[0] % 5))))


@model(x="float[n,4]")
def value_in_lookup_of_texts(x):
    return x * {"True": 2.0, "False": 3.0}[str(bool(x.sum() > 0))]


@model(x="float[n,4]")
def sign_as_text(x):
    return x * (2 if str(x.sum().item()).startswith("-") else 3)
