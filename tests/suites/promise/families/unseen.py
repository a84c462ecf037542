"""Sizes whose numbers Python takes where nobody sees it, and answers that differ at few sizes."""

from __future__ import annotations

import csv
import ctypes
import dataclasses
import io
import marshal
import pathlib
import re
import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ..listing import factory, model


def other_at_few(x, n):
    return x * 2 if n in (13, 19, 64, 131, 500) else x + 1


class Header(ctypes.Structure):
    _fields_ = (("rows", ctypes.c_int), ("columns", ctypes.c_int))


class Sized(NamedTuple):
    rows: int
    columns: int


@dataclasses.dataclass
class Held:
    rows: int


class Rows(int):
    def __new__(cls, n):
        return super().__new__(cls, n)


@model(x="float[n,4]")
def field_of_a_structure(x):
    header = Header()
    header.rows = x.shape[0]
    return other_at_few(x, header.rows)


@model(x="float[n,4]")
def field_set_by_name(x):
    header = Header()
    for name, size in zip(("rows", "columns"), x.shape):
        setattr(header, name, size)
    return other_at_few(x, header.rows)


@model(x="float[n,4]")
def value_of_a_number(x):
    number = ctypes.c_long(0)
    number.value = x.shape[0]
    return other_at_few(x, number.value)


@model(x="float[n,4]")
def added_to_a_byte(x):
    held = bytearray(2)
    held[0] += x.shape[0] % 256
    return other_at_few(x, held[0])


@model(x="float[n,4]")
def index_called(x):
    return other_at_few(x, x.shape[0].__index__())


@model(x="float[n,4]")
def text_by_the_class(x):
    return other_at_few(x, int(int.__str__(x.shape[0]) + ""))


@model(x="float[n,4]")
def format_by_the_class(x):
    return other_at_few(x, int(object.__format__(x.shape[0], "")))


@model(x="float[n,4]")
def integer_of_its_own(x):
    return other_at_few(x, int(Rows(x.shape[0])))


@model(x="float[n,4]")
def table_of_text(x):
    file = io.StringIO()
    csv.writer(file).writerow([x.shape[0], 4])
    return other_at_few(x, int(file.getvalue().split(",")[0]))


@model(x="float[n,4]")
def table_of_names(x):
    file = io.StringIO()
    writer = csv.DictWriter(file, ["rows"])
    writer.writerow({"rows": x.shape[0]})
    return other_at_few(x, int(file.getvalue()))


@model(x="float[n,4]")
def printed_to_a_file(x):
    file = io.StringIO()
    print(x.shape[0], file=file)
    return other_at_few(x, int(file.getvalue()))


@model(x="float[n,4]")
def record_of_numpy(x):
    held = np.array([(x.shape[0], 2.0)], dtype=[("n", "i8"), ("v", "f8")])
    return other_at_few(x, int(held["n"][0]))


@model(x="float[n,4]")
def marshalled(x):
    return other_at_few(x, marshal.loads(marshal.dumps(x.shape[0])))


@model(x="float[n,4]")
def marshalled_in_a_generator(x):
    return other_at_few(x, next(marshal.loads(marshal.dumps(int(n))) for n in x.shape))


@model(x="float[n,4]")
def interned(x):
    return x * 2 if sys.intern(f"{x.shape[0]}") == "13" else x


@model(x="float[n,4]")
def name_of_a_file(x):
    return x * 2 if pathlib.PurePath(f"rows{x.shape[0]}").name == "rows13" else x


@model(x="float[n,4]")
def text_as_key(x):
    held = {}
    held[f"r{x.shape[0]}"] = 1.0
    return x * 2 if "r13" in held else x


@model(x="float[n,4]")
def texts_as_keys(x):
    held = {f"r{x.shape[0]}": 1.0, "r64": 2.0}
    return x * len(held)


@model(x="float[n,4]")
def texts_in_a_set(x):
    return x * len({str(x.shape[0]), "13", "64"})


def words_of(n):
    yield f"{n}"
    yield "13"


@model(x="float[n,4]")
def texts_of_a_generator(x):
    return x * len(set(words_of(x.shape[0])))


@model(x="float[n,4]")
def text_of_a_float(x):
    return other_at_few(x, round(1e-9 + float(f"{float(x.shape[0])}")))


@model(x="float[n,4]")
def hexadecimal_float(x):
    return other_at_few(x, int(float.fromhex((x.shape[0] / 2).hex()) * 2))


@model(x="float[n,4]")
def named_tuple_as_text(x):
    return other_at_few(x, int(re.findall(r"\d+", str(Sized(x.shape[0], 4)))[0]))


@model(x="float[n,4]")
def dataclass_as_text(x):
    return other_at_few(x, int(re.findall(r"\d+", repr(Held(x.shape[0])))[0]))


@model(x="float[n,4]")
def error_as_text(x):
    try:
        raise ValueError(x.shape[0])
    except ValueError as problem:
        return other_at_few(x, int(str(problem)))


@model(x="float[n,4]")
def percent_with_names(x):
    return other_at_few(x, int("%(n)d" % {"n": x.shape[0]}))  # noqa: UP031


@factory(x="float[n,4]")
class BufferByName(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("of_13", torch.ones(4) * 3)

    def forward(self, x):
        try:
            return x * self.get_buffer(f"of_{x.shape[0]}")
        except AttributeError:
            return x


@factory(x="float[n,4]")
class TablesByName(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        key = f"rows_{x.shape[0]}"
        if key not in self.tables:
            self.tables[key] = torch.linspace(0, 1, x.shape[0])[:, None]
        return x * self.tables[key]
