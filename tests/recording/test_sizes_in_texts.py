"""Sizes that are written in a text or looked up, and so decide out of Python's sight."""

import collections

import numpy as np
import pytest
import torch
from torch import nn

import hx
from hx.errors import HxError

BY_TEXT = {"4x6": 2.0, "5x7": 3.0, "torch.Size([5, 7])": 4.0, "(5, 7)": 5.0, "a5": 6.0, "05": 7.0}
BY_NUMBER = {4: 2.0, 33: 3.0}
BY_PAIR = {(4, 6): 2.0, (5, 7): 3.0}
SOME, ROWS, ARRAY, TENSOR = {4, 33}, frozenset({4, 7}), np.array([4, 33]), torch.tensor([4, 33])
PERCENT, FORMAT, SCALE, KEYS = "%dx%s", "{}x{w}", "scale_%d", BY_NUMBER.keys()
LOOKUPS = {
    "f-string": lambda x: x * BY_TEXT.get(f"{x.shape[0]}x{x.shape[1]}", 0.5),
    "f-string of a product": lambda x: x * {"24": 2.0, "35": 9.0}.get(f"{x.numel()}", 0.5),
    "f-string with a format": lambda x: x * BY_TEXT.get(f"{x.shape[0]:02d}", 0.5),
    "percent": lambda x: x * BY_TEXT.get(PERCENT % (x.shape[0], x.shape[1]), 0.5),
    "format": lambda x: x * BY_TEXT.get(FORMAT.format(x.shape[0], w=x.shape[1]), 0.5),
    "join": lambda x: x * BY_TEXT.get("x".join(map(str, x.shape)), 0.5),
    "join of several": lambda x: x * BY_TEXT.get("x".join([str(n) for n in x.shape]), 0.5),
    "repr of a shape": lambda x: x * BY_TEXT.get(repr(x.shape), 0.5),
    "str of a tuple": lambda x: x * BY_TEXT.get(str(tuple(x.shape)), 0.5),
    "text and text": lambda x: x * BY_TEXT.get("a" + str(x.shape[0]), 0.5),
    "comparison": lambda x: x * 2 if f"{x.shape[0]}" == "5" else x,
    "text in a set": lambda x: x * 2 if f"n{x.shape[0]}" in {"n5", "n9"} else x,
    "no text in it": lambda x: x * 2 if f"n{x.shape[0]}" not in ("n5", "n9") else x,
    "number": lambda x: x * BY_NUMBER.get(x.shape[0], 0.5),
    "pair": lambda x: x * BY_PAIR.get((x.shape[0], x.shape[1]), 0.5),
    "set": lambda x: x * 2 if x.shape[0] in SOME else x,
    "not in a set": lambda x: x * 2 if x.shape[1] not in ROWS else x,
    "keys": lambda x: x * 2 if x.shape[0] in KEYS else x,
    "pair in a dict": lambda x: x * 2 if (x.shape[0], x.shape[1]) in BY_PAIR else x,
    "array": lambda x: x * 2 if x.shape[0] in ARRAY else x,
    "tensor": lambda x: x * 2 if x.shape[0] in TENSOR else x,
    "range": lambda x: x * 2 if x.shape[0] in range(2, 8, 2) else x,
    "search in an array": lambda x: x * 2 if len(np.flatnonzero(ARRAY == x.shape[0])) else x,
    "nonzero of an array": lambda x: x * (1 + len((ARRAY == x.shape[0]).nonzero()[0])),
    "bytes": lambda x: x * 2 if x.nbytes < 100 else x,
    "number in a text": lambda x: x * int(f"{x.shape[0]}"),
}  # fmt: skip


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"n4": nn.Linear(6, 6), "n5": nn.Linear(6, 6)})
        self.scale_4, self.scale_9, self.other = 2.0, 3.0, nn.Linear(6, 6)


class ByModule(Named):
    def forward(self, x):
        name = f"n{x.shape[0]}"
        return self.heads[name](x) if name in self.heads else self.other(x)


class ByAttribute(Named):
    def forward(self, x):
        return x * getattr(self, f"scale_{x.shape[0]}", 0.5)


class HasAttribute(Named):
    def forward(self, x):
        name = SCALE % x.shape[0]
        return x * getattr(self, name) if hasattr(self, name) else self.other(x)


class Remembers(nn.Module):
    """A memo of what follows from sizes, as many models keep one."""

    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = f"{x.shape[0]}-{x.shape[1]}"
        if key not in self.known:
            self.known[key] = torch.arange(x.shape[0])[:, None] + torch.arange(x.shape[1])
        return x + self.known[key]


def holds_or_promises(model, x, others, **dynamic):
    """Compare at other sizes, unless the file promises nothing for them."""
    program = hx.export(model, x, None, dynamic={"x": dict(enumerate("hw"[: len(dynamic) or 2]))})
    checked = 0
    for other in others:
        try:
            found = program.run(other)
        except HxError as e:
            assert "is right for" in str(e)
            continue
        checked += 1
        torch.testing.assert_close(found, model(other), atol=1e-5, rtol=1e-5)
    return program, checked


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_asks_about_all_sizes_in_the_table(name):
    sizes = [(4, 6), (5, 7), (5, 6), (4, 7), (33, 6), (6, 6), (9, 9)]
    others = [torch.randn(size) for size in sizes]
    _, checked = holds_or_promises(LOOKUPS[name], torch.randn(4, 6), others)
    assert checked >= 4


FAR = {
    "number": lambda x: x * {777: 2.0}.get(x.shape[0], 1.0),
    "set": lambda x: x * 2 if x.shape[0] in {777, 99} else x,
    "text": lambda x: x * 2 if f"{x.shape[0]}" == "777" else x,
    "array": lambda x: x * 2 if x.shape[0] in np.array([777, 99]) else x,
    "tensor": lambda x: x * 2 if x.shape[0] in torch.tensor([777, 99]) else x,
    "search": lambda x: x * 2 if np.isin(x.shape[0], np.array([777, 99])) else x,
}


@pytest.mark.parametrize("name", FAR)
def test_sizes_far_off_that_only_the_table_knows(name):
    others = [torch.randn(n, 6) for n in (3, 99, 777)]
    _, checked = holds_or_promises(FAR[name], torch.randn(4, 6), others)
    assert checked


@pytest.mark.parametrize("kind", [ByModule, ByAttribute, HasAttribute, Remembers])
def test_names_with_a_size_in_them(kind):
    model, others = kind(), [torch.randn(n, 6) for n in (4, 5, 9, 12)]
    program, checked = holds_or_promises(model, torch.randn(4, 6), others, h=0)
    assert checked == len(others)


def test_a_table_of_the_models_own_kind_is_asked_as_it_is():
    table = collections.defaultdict(lambda: 1.0, {4: 1.0})
    program = hx.export(lambda x: x * table[x.shape[0]], torch.randn(4, 6), dynamic={"x": {0: "h"}})
    assert program.proof.ok


def test_a_text_keeps_what_python_says_of_it():
    seen = []

    def forward(x):
        h, w = x.shape
        text = f"{h!r:>3}|{w:03d}|{'a' + str(h)}|{(h, w)}|{x.shape}|{h / 2:.1f}"
        seen.append((text, text.upper(), len(text), text == f"{text}", {text: 1}[text]))
        return x

    hx.export(forward, torch.randn(4, 6), dynamic={"x": {0: "h", 1: "w"}})
    assert seen[0][0] == "  4|006|a4|(4, 6)|torch.Size([4, 6])|2.0"
    assert all(each[3] and each[4] == 1 for each in seen)


ONE_SIZE = {
    "strip": lambda x: x + (1 if int(str(x.shape[0]).strip()) == 64 else 0),
    "zfill": lambda x: x * 2 if str(x.shape[0]).zfill(4) == "0064" else x,
    "lower": lambda x: x * 2 if f"N{x.shape[0]}".lower() == "n64" else x,
    "ljust": lambda x: x * 2 if str(x.shape[0]).ljust(3, "-") == "64-" else x,
    "replace": lambda x: x * 2 if f"a{x.shape[0]}".replace("a", "b") == "b64" else x,
    "split": lambda x: x * 2 if f"a_{x.shape[0]}".split("_")[1] == "64" else x,
    "partition": lambda x: x * 2 if f"a_{x.shape[0]}".partition("_")[2] == "64" else x,
    "turned around": lambda x: x * 2 if str(x.shape[0])[::-1] == "46" else x,
    "slice": lambda x: x * 2 if f"size {x.shape[0]}"[5:] == "64" else x,
    "format of a text": lambda x: x * 2 if f"{x.shape[0]!s:>4}" == "  64" else x,
    "repr of a text": lambda x: x * 2 if repr(str(x.shape[0])) == "'64'" else x,
    "several names": lambda x: x * 2 if f"{x.shape[0]}x{x.shape[1]}".replace("x", "-") == "64-6"
    else x,
    "start": lambda x: x * 2 if f"{x.shape[0]}".startswith("64") else x,
    "table": lambda x: x * {"0064": 2.0}.get(str(x.shape[0]).zfill(4), 1.0),
    "within a text": lambda x: x * 2 if f" {x.shape[0]} " in "1 64 x" else x,
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_SIZE)
def test_a_text_that_is_made_of_another_still_asks_about_the_size(name):
    others = [torch.randn(n, 6) for n in (3, 4, 5, 33, 63, 64, 65, 640)]
    _, checked = holds_or_promises(ONE_SIZE[name], torch.randn(4, 6), others, h=0)
    assert checked >= 4


NUMBERS = {
    "strip": lambda x: x * int(str(x.shape[0]).strip()),
    "real": lambda x: x * float(str(x.shape[0])),
    "padded": lambda x: x + int(str(x.shape[0]).zfill(4)[-2:]),
    "last digit": lambda x: x + int(str(x.shape[0])[-1]),
    "part": lambda x: x * int(f"{x.shape[0]}x{x.shape[1]}".split("x")[0]),
    "hexadecimal": lambda x: x * int(f"{x.shape[0]:x}", 16),
    "digits only": lambda x: x * 2 if str(x.shape[0]).isdigit() else x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_read_from_a_text_is_a_size_where_it_is_one(name):
    model = NUMBERS[name]
    program = hx.export(model, torch.randn(4, 6), None, dynamic={"x": {0: "h"}})
    assert not program.report.promised
    for n in (1, 3, 9, 10, 64, 100, 101, 1064):
        x = torch.randn(n, 6)
        torch.testing.assert_close(program.run(x), model(x))


UNSEEN = {
    "count": lambda x: x * 2 if str(x.shape[0]).count("6") == 2 else x,
    "bytes": lambda x: x * 2 if str(x.shape[0]).encode() == b"66" else x,
    "number in another base": lambda x: x * 2 if int(str(x.shape[0]), 12) == 78 else x,
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_nobody_follows_is_an_open_finding(name):
    program = hx.export(UNSEEN[name], torch.randn(4, 6), None, dynamic={"x": {0: "h"}})
    (found,) = [each for each in program.report.findings if each.level == "open"]
    assert found.where is not None and found.where.file == __file__
