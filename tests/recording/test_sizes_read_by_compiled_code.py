"""Sizes that compiled code reads: nobody asks for the number, so the report says that it left."""

import array
import base64
import collections
import ctypes
import dataclasses
import datetime
import decimal
import functools
import hashlib
import itertools
import json
import operator
import random
import re
import string
import struct

import numpy as np
import pytest
import torch

import hx

TABLE = [0] * 64 + [1] + [0] * 2000
PLACE = "%05d"


@dataclasses.dataclass(frozen=True)
class Of:
    n: int


def listed(n):
    rows = [0] * 2000
    rows[n] = 1
    return rows[64]


def imported_inside(n):
    from struct import pack

    return pack("i", n) == pack("i", 64)


# Each is 1 at 64 alone: no other size shows that it follows from the size.
READ = {
    "json": lambda n: json.loads(json.dumps({"n": [n]}))["n"] == [64],
    "struct": lambda n: struct.pack("i", n) == struct.pack("i", 64),
    "array": lambda n: array.array("i", [n])[0] == 64,
    "seed": lambda n: random.Random(n).random() == random.Random(64).random(),
    "hash": lambda n: hashlib.md5(bytes(n)).digest() == hashlib.md5(bytes(64)).digest(),
    "date": lambda n: datetime.timedelta(seconds=n).seconds == 64,
    "ctypes": lambda n: ctypes.c_int(n).value == 64,
    "bytes": lambda n: len(bytearray(n)) == 64,
    "repeat": lambda n: len([*itertools.repeat(1, n)]) == 64,
    "islice": lambda n: len([*itertools.islice(itertools.count(), n)]) == 64,
    "deque": lambda n: collections.deque(maxlen=n).maxlen == 64,
    "decimal": lambda n: int(decimal.Decimal(n)) == 64,
    "index": lambda n: operator.index(n) == 64,
    "getter": lambda n: operator.itemgetter(n)(TABLE),
    "pop": lambda n: [*TABLE].pop(n),
    "set item": listed,
    "ljust": lambda n: len("".ljust(n)) == 64,
    "chr": lambda n: chr(n) == "@",
    "hex": lambda n: hex(n) == "0x40",
    "binary": lambda n: bin(n).count("1") == 1 and 50 < n < 100,
    "bit count": lambda n: n.bit_count() == 1 and 50 < n < 100,
    "format": lambda n: format(n, "04d") == "0064",
    "aligned": lambda n: f"{n:<4}" == "64  ",
    "base 16": lambda n: f"{n:x}" == "40",
    "percent": lambda n: PLACE % n == "00064",
    "bytes by percent": lambda n: b"%d" % n == b"64",
    "template": lambda n: string.Template("$n").substitute(n=n) == "64",
    "pattern": lambda n: bool(re.fullmatch("64", str(n))),
    "base 64": lambda n: len(base64.b64encode(bytes(n))) == 88 and n == 64,
    "generator": lambda n: torch.Generator().manual_seed(n).initial_seed() == 64,
    "code": lambda n: eval("n == 64", {"n": n}),
    "dataclass": lambda n: Of(n) == Of(64),
    "float": lambda n: 63.5 < n < 64.5,
    "equal float": lambda n: n == 64.0,
    "float around": lambda n: abs(n - 64) < 0.5,
    "imported inside": imported_inside,
    "item of an array": lambda n: int(np.array(TABLE)[n]),
    "numpy's generator": lambda n: np.random.RandomState(n).rand() == np.random.RandomState(64).rand(),
    "trace": lambda n: np.eye(n).trace() == 64,
    "deviation": lambda n: np.arange(n).std() == np.arange(64).std(),
    "sum of repeated": lambda n: np.repeat(1, n).sum() == 64,
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_a_number_that_compiled_code_reads_is_reported(kind, tmp_path):
    def model(x):
        return x + int(READ[kind](x.shape[0]))

    program = hx.export(model, (torch.randn(5, 4),), tmp_path / "m.onnx", dynamic={"x": {0: "n"}})
    found = [f for f in program.report.findings if f.level != "followed" and f.place]
    assert found, program.report.findings


CARRIED = {
    "deep copy": lambda x: x * __import__("copy").deepcopy([x.shape[0]])[0],
    "dict": lambda x: x.new_zeros(collections.OrderedDict(n=x.shape[0])["n"], 4) + x,
    "accumulate": lambda x: x * [*itertools.accumulate([x.shape[0], 1])][-1],
    "slice": lambda x: torch.cat([x, x])[slice(None, x.shape[0])],
    "product": lambda x: x.reshape(functools.reduce(operator.mul, x.shape)),
    "named tuple": lambda x: x * collections.namedtuple("Pair", "n m")(x.shape[0], 4).n,
    "texts": lambda x: x * {"n5": 2}.get(f"n{x.shape[1]}", 3),
    "comparison with a float": lambda x: x if x.shape[0] > -0.5 else -x,
}


@pytest.mark.parametrize("kind", CARRIED)
def test_a_size_that_is_passed_on_is_not_reported(kind, tmp_path):
    program = hx.export(
        CARRIED[kind], (torch.randn(5, 4),), tmp_path / "m.onnx", dynamic={"x": {0: "n"}}
    )
    assert {str(f.level) for f in program.report.findings} <= {"followed"}
