"""Numbers that Python counts while it goes over rows, pieces and numbers, without asking a size."""

from __future__ import annotations

import collections
import functools
import itertools

import torch
from torch import nn

from ..listing import factory, model


def other_at_few(x, n):
    return x * 2 if n in (13, 19, 64, 131, 500) else x + 1


class Counting:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __hash__(self):
        return hash(("rows", self.n))

    def __eq__(self, other):
        return isinstance(other, Counting) and self.n == other.n

    def __index__(self):
        return self.n


class OfItsOwnHash(Counting):
    def __hash__(self):
        return self.n


@model(x="float[n,4]")
def sum_of_ones(x):
    return other_at_few(x, sum(1 for _ in range(x.shape[0])))


@model(x="float[n,4]")
def sum_of_remainders(x):
    return other_at_few(x, sum(i % 2 for i in range(x.shape[0])))


@model(x="float[n,4]")
def sum_of_lengths(x):
    return other_at_few(x, sum(len(piece) for piece in x.split(1)))


@model(x="float[n,4]")
def rows_counted(x):
    total, k = torch.zeros(4), 0
    for row in x:
        total = total + row
        k += 1
    return total * 2 if k > 50 else total + 1


@model(x="float[n,4]")
def rounds_counted(x):
    k = 0
    for _ in range(x.shape[0]):
        k += 1
    return other_at_few(x, k)


@model(x="float[n,4]")
def odd_rounds_counted(x):
    k = 0
    for i in range(x.shape[0]):
        if i % 2:
            k += 1
    return other_at_few(x, k)


@model(x="float[n,4]")
def last_of_enumerate(x):
    last = 0
    for i, _row in enumerate(x):
        last = i
    return other_at_few(x, last + 1)


@model(x="float[n,4]")
def counted_by_while(x):
    i = k = 0
    while i < x.shape[0]:
        i += 1
        k += 2
    return other_at_few(x, k // 2)


@model(x="float[n,4]")
def counted_by_while_alone(x):
    i = 0
    while i < x.shape[0]:
        i += 1
    return other_at_few(x, i)


@model(x="float[n,4]")
def counted_in_a_closure(x):
    k = 0

    def count():
        nonlocal k
        k += 1

    for _ in range(x.shape[0]):
        count()
    return other_at_few(x, k)


@factory(x="float[n,4]")
class CountedByAttribute(nn.Module):
    def forward(self, x):
        self.k = 0
        for _row in x:
            self.k += 1
        return other_at_few(x, self.k)


@model(x="float[n,4]")
def counted_in_a_list(x):
    k = [0]
    for _row in x:
        k[0] += 1
    return other_at_few(x, k[0])


@model(x="float[n,4]")
def numbers_appended(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(i % 3)
    return other_at_few(x, len(rows))


@model(x="float[n,4]")
def share_of_rounds(x):
    share = 1.0
    for _ in range(x.shape[0]):
        share *= 0.5
    return x * share


@model(x="float[n,4]")
def rows_unbound(x):
    return other_at_few(x, len(x.unbind()))


@model(x="float[n,4]")
def pieces_of_one(x):
    return other_at_few(x, len(x.split(1)))


@model(x="float[n,4]")
def pieces_of_two(x):
    return other_at_few(x, len(x.split(2)))


@model(x="float[n,4]")
def rows_in_a_tuple(x):
    return other_at_few(x, len(tuple(x)))


@model(x="float[n,4]")
def pairs_of_rows(x):
    return other_at_few(x, len([*zip(x, x.flip(0))]))


@model(x="float[n,4]")
def rest_of_rows(x):
    first, *rest = x
    return other_at_few(x, len(rest)) + first


@model(x="float[n,4]")
def rows_by_number(x):
    return other_at_few(x, len(dict(enumerate(x))))


@model(x="float[n,4]")
def numbers_in_a_set(x):
    return other_at_few(x, len({i // 2 for i in range(x.shape[0])}))


@model(x="float[n,4]")
def numbers_in_a_deque(x):
    return other_at_few(x, len(collections.deque(range(x.shape[0]))))


@model(x="float[n,4]")
def pairs_of_numbers(x):
    return other_at_few(x, len([*itertools.product(range(x.shape[0]), (0,))]))


@model(x="float[n,4]")
def longest_of_two(x):
    return other_at_few(x, len([*itertools.zip_longest(range(x.shape[0]), range(3))]))


@model(x="float[n,4]")
def rows_reduced(x):
    return other_at_few(x, functools.reduce(lambda k, _row: k + 1, x, 0))


@model(x="float[n,4]")
def largest_number(x):
    return other_at_few(x, max(i for i, _ in enumerate(x)))


@model(x="float[n,4]")
def numbers_without_zero(x):
    return other_at_few(x, len([*filter(None, range(x.shape[0]))]))


@model(x="float[n,4]")
def length_of_an_object(x):
    return other_at_few(x, len(Counting(x.shape[0])))


@model(x="float[n,4]")
def hash_of_an_object(x):
    return other_at_few(x, hash(OfItsOwnHash(x.shape[0])))


@model(x="float[n,4]")
def object_as_key(x):
    return x * {Counting(13): 2.0, Counting(131): 3.0}.get(Counting(x.shape[0]), 1.0)


@model(x="float[n,4]")
def objects_in_a_set(x):
    return x * len({OfItsOwnHash(13), OfItsOwnHash(131), OfItsOwnHash(x.shape[0])})


@model(x="float[n,4]")
def object_as_index(x):
    return x * [1.0, 2.0, 3.0][Counting(x.shape[0] % 3)]


@model(x="float[n,4]")
def key_beside_a_size(x):
    held = collections.OrderedDict()
    held[x.shape[0]] = 1
    held[13] = 2
    return x * len(held)


@model(x="float[n,4]")
def popped(x):
    return x * {13: 2.0, 131: 3.0}.pop(x.shape[0], 1.0)


@model(x="float[n,4]")
def set_by_default(x):
    return x * {13: 2.0, 131: 3.0}.setdefault(x.shape[0], 1.0)
