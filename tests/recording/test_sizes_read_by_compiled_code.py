"""Sizes that compiled code reads: nobody asks for the number, so the report says that it left."""

import array
import base64
import bisect
import collections
import concurrent.futures
import csv
import ctypes
import dataclasses
import datetime
import decimal
import functools
import hashlib
import io
import itertools
import json
import marshal
import math
import operator
import pathlib
import random
import re
import string
import struct
import sys
import warnings

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


SIXTY_FOUR = 64
PACK = functools.partial(struct.pack, "i")


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_int))


def appended(numbers, n):
    numbers.append(n)
    return numbers[0]


def extended(numbers, more):
    numbers.extend(more)
    return numbers[0]


def put(numbers, n):
    numbers[0] = n
    return numbers[0]


def in_place(numbers):
    numbers.sort()
    return numbers


def aliased(n):
    pack = struct.pack
    return pack("i", n)


def named_attribute(n):
    thing = Thing()
    setattr(thing, f"a{n}", 1)
    return hasattr(thing, "a64")


class Thing:
    pass


class Integer(int):
    def __new__(cls, n):
        return super().__new__(cls, n)


def of_structure(n, by_name=False):
    pair = Pair()
    if by_name:
        setattr(pair, "ab"[0], n)
    else:
        pair.a = n
    return pair.a


def of_number(n):
    number = ctypes.c_int()
    number.value = n
    return number.value


def added_to_a_byte(n):
    held = bytearray(1)
    held[0] += n % 256
    return held[0] == 64


def in_a_table(writer, row):
    file = io.StringIO()
    made = writer(file)
    made.writerow(row)
    return file.getvalue().strip()


def keyed(n):
    held = {}
    held[f"n{n}"] = 1
    return "n64" in held


def in_a_thread(n):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda size: size, n).result()


def in_a_list(numbers, n):
    numbers.append(n)
    return numbers[0]


def kept(n):
    held = {}
    held[f"n{n}"], held[n] = n, n
    if n in held and f"n{n}" in held:
        held[n] += held[f"n{n}"]
    return held[n]


def written_at_once(n):
    file = io.StringIO()
    csv.writer(file).writerow([n])
    return file.getvalue().strip()


def printed(n):
    file = io.StringIO()
    print(n, file=file)
    return file.getvalue().strip()


def executed(n):
    space = {"n": n}
    exec("m = int('%d' % n) if n else 0", space)
    return space["m"]


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
    "appended": lambda n: appended(array.array("q"), n) == 64,
    "appended to bytes": lambda n: appended(bytearray(), n % 256) == 64,
    "extended": lambda n: extended(array.array("q"), [n]) == 64,
    "set": lambda n: put(array.array("q", [0]), n) == 64,
    "set in bytes": lambda n: put(bytearray(1), n % 256) == 64,
    "set in an array": lambda n: put(np.zeros(1, dtype=int), n) == 64,
    "array of C": lambda n: ctypes.sizeof(ctypes.c_byte * n) == 64,
    "set in C": lambda n: put((ctypes.c_int * 1)(), n) == 64,
    "structure of C": lambda n: Pair(n, 2).a == 64,
    "repeated array": lambda n: len(array.array("b", [0]) * n) == 64,
    "repeated bytes": lambda n: len(bytearray(b"a") * n) == 64,
    "repeated text": lambda n: len("a" * n) == 64,
    "times a duration": lambda n: (datetime.timedelta(days=1) * n).days == 64,
    "complex": lambda n: (1j * n).imag == 64,
    "sorted with floats": lambda n: sorted([63.5, n, 64.5])[1] == 64,
    "sorted by a key": lambda n: sorted([63.5, n, 64.5], key=abs)[1] == n,
    "sorted in place": lambda n: in_place([n, 64.5, 63.5])[1] == n,
    "largest by a key": lambda n: max([n, 63.5], key=lambda v: v) == n and n < 65,
    "bisected": lambda n: bisect.bisect([63.5, 64.5], n) == 1,
    "in a list of floats": lambda n: n in [64.0, 65.0] and n < 65,
    "list of floats": lambda n: [64.0] == [n],
    "place in a list of floats": lambda n: [64.0].count(n),
    "the number itself": lambda n: n is SIXTY_FOUR,
    "searched list": lambda n: np.searchsorted([63, 64], [n])[0] == 1,
    "unique": lambda n: np.unique([n, n])[0] == 64,
    "reshaped": lambda n: np.zeros(0).reshape(0, n).shape[1] == 64,
    "digits": lambda n: np.binary_repr(n) == "1000000",
    "alias": lambda n: aliased(n) == struct.pack("i", 64),
    "partial": lambda n: PACK(n) == struct.pack("i", 64),
    "mapped": lambda n: [*map(PACK, [n])] == [struct.pack("i", 64)],
    "unbound": lambda n: int.__add__(n, 0) == 64,
    "numbered": lambda n: next(enumerate("a", n)) == (64, "a"),
    "float around a size": lambda n: (63.5).__lt__(n) and (64.5).__gt__(n),
    "quotient of a float": lambda n: divmod(128.0, n)[0] == 2 and n > 63,
    "sum of numbers": lambda n: math.fsum([n, 1.0]) == 65,
    "attribute": named_attribute,
    "field of a structure": lambda n: of_structure(n) == 64,
    "field set by name": lambda n: of_structure(n, by_name=True) == 64,
    "value of a number of C": lambda n: of_number(n) == 64,
    "added to a byte": lambda n: added_to_a_byte(n),
    "index method": lambda n: n.__index__() == 64,
    "text by object": lambda n: int.__str__(n) == "64",
    "format by object": lambda n: object.__format__(n, "") == "64",
    "hexadecimal float": lambda n: float.fromhex((n / 2).hex()) == 32,
    "ratio of a float": lambda n: (n / 2).as_integer_ratio() == (32, 1),
    "row of a table": lambda n: in_a_table(csv.writer, [n]) == "64",
    "row at once": lambda n: written_at_once(n) == "64",
    "row by names": lambda n: in_a_table(lambda f: csv.DictWriter(f, ["n"]), {"n": n}) == "64",
    "printed": lambda n: printed(n) == "64",
    "record": lambda n: int(np.array([(n, 2.0)], dtype=[("n", "i8"), ("x", "f8")])["n"][0]) == 64,
    "marshalled": lambda n: marshal.loads(marshal.dumps([n])) == [64],
    "interned path": lambda n: pathlib.PurePath(f"n{n}").name == "n64",
    "executed": lambda n: executed(n) == 64,
    "text of a float": lambda n: float(f"{n / 2}") == 32,
    "percent of a float": lambda n: float("%.2f" % (n / 2)) == 32,
    "key that is a text": keyed,
    "key of a dict": lambda n: len({f"{n}": 1, "64": 2}) == 1,
    "text in a set": lambda n: len({str(n), "64"}) == 1,
    "text in the keys of a dict": lambda n: "64" in {str(n): 1},
    "dataclass as text": lambda n: str(Of(n)) == "Of(n=64)",
    "dataclass in a text": lambda n: "n=64" in f"{Of(n)}",
    "text of an error": lambda n: str(ValueError(n)) == "64",
    "named tuple as text": lambda n: "n=64" in str(collections.namedtuple("Named", "n")(n)),
    "percent with names": lambda n: "%(n)d" % {"n": n} == "64",  # noqa: UP031
    "percent of an object": lambda n: "%s" % Of(n) == "Of(n=64)",  # noqa: UP031
    "own integer": lambda n: int(Integer(n)) == 64,
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_a_number_that_compiled_code_reads_is_reported(kind, tmp_path):
    def model(x):
        return x + int(READ[kind](x.shape[0]))

    # With a higher effort, both answers are in the file where it follows the question.
    dynamic = {"x": {0: "n"}}
    program = hx.export(
        model, (torch.randn(5, 4),), tmp_path / "m.onnx", dynamic=dynamic, effort="low"
    )
    found = [f for f in program.report.findings if f.level != "followed" and f.place]
    assert found, program.report.findings


class Number:
    def __init__(self, n):
        self.n = n

    def __int__(self):
        return self.n


def listed_size(n):
    numbers = []
    numbers.append(n)
    numbers.insert(0, n)
    numbers.extend((n, n))
    return numbers[2]


CARRIED = {
    "deep copy": lambda x: x * __import__("copy").deepcopy([x.shape[0]])[0],
    "dict": lambda x: x.new_zeros(collections.OrderedDict(n=x.shape[0])["n"], 4) + x,
    "accumulate": lambda x: x * [*itertools.accumulate([x.shape[0], 1])][-1],
    "slice": lambda x: torch.cat([x, x])[slice(None, x.shape[0])],
    "product": lambda x: x.reshape(functools.reduce(operator.mul, x.shape)),
    "named tuple": lambda x: x * collections.namedtuple("Pair", "n m")(x.shape[0], 4).n,
    "texts": lambda x: x * {"n5": 2}.get(f"n{x.shape[1]}", 3),
    "comparison with a float": lambda x: x if x.shape[0] > -0.5 else -x,
    "ints": lambda x: x.new_zeros([*map(int, x.shape)]) + x,
    "index": lambda x: x * operator.index(x.shape[0]),
    "type": lambda x: x * (lambda kind: kind(x.shape[0]))(int),
    "sum beside floats": lambda x: x * sum([0.5, x.shape[0], 0.5]),
    "list": lambda x: x * listed_size(x.shape[0]),
    "sorted": lambda x: x * sorted([x.shape[0]])[0],
    "partial function": lambda x: functools.partial(torch.mul, x)(x.shape[0]),
    "zip": lambda x: x * sum(a * b for a, b in zip(x.shape, itertools.repeat(2))),
    "enumerate": lambda x: x * sum(a * b for a, b in enumerate(x.shape)),
    "kept by texts and sizes": lambda x: x * kept(x.shape[0]),
    "shown": lambda x: print(f"{Of(x.shape[0])} and {x.shape[0] / 2}") or x,
    "in another thread": lambda x: x * in_a_thread(x.shape[0]),
    "user list": lambda x: x * in_a_list(collections.UserList(), x.shape[0]),
    "warned": lambda x: warnings.warn(f"{x.shape[0]} rows", stacklevel=1) or x,
    "interned": lambda x: x * int(sys.intern(f"{x.shape[0]}")),
    "own number": lambda x: x * int(Number(x.shape[0])),
}


@pytest.mark.filterwarnings("ignore:. rows")
@pytest.mark.parametrize("kind", CARRIED)
def test_a_size_that_is_passed_on_is_not_reported(kind, tmp_path):
    program = hx.export(
        CARRIED[kind], (torch.randn(5, 4),), tmp_path / "m.onnx", dynamic={"x": {0: "n"}}
    )
    assert {str(f.level) for f in program.report.findings} <= {"followed"}
