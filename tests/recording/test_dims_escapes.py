"""Sizes that Python drops: told by their line, and a file that has one baked in is not written."""

from __future__ import annotations

import linecache
import math
import re
import zlib

import pytest
import torch
from called import Single

import hx
from hx.ir.sizes.size_polynomials import Atom
from hx.ir.value import Node, Origin, Value


def escaping(function):
    ESCAPES[function.__name__] = function
    return function


ESCAPES = {}


@escaping
def int_where_no_source_is(x):
    return x * eval("int(n)", {"n": x.shape[0]})  # here: int


@escaping
def float_where_no_source_is(x):
    return x * eval("float(n)", {"n": x.shape[0]})  # here: float


@escaping
def a_branch(x):
    if x.shape[0] > 3:  # here: branch
        return x * 2
    return x


@escaping
def a_truth_value(x):
    if x.shape[0]:  # here: branch
        return x * 2
    return x


@escaping
def a_comparison_of_shapes(x):
    return x if x.shape == (2, 3) else x + 1  # here: branch


@escaping
def an_assertion(x):
    assert x.shape[0] % 2 == 0 or True  # here: branch
    return x * 2


@escaping
def a_loop(x):
    total = x
    for i in range(x.shape[0]):  # here: range
        total = total + i
    return total


@escaping
def a_loop_over_rows(x):
    total = x.sum()
    for row in x:  # here: range
        total = total + row.max()
    return total


@escaping
def cut_into_pieces(x):
    return torch.stack([part.sum() for part in x.split(1, 0)]).sum()  # here: range


@escaping
def a_repeated_list(x):
    return x + ([1.0] * x.shape[0])[-1]  # here: repeat


@escaping
def a_function_that_no_graph_has(x):
    return x * math.gamma(x.shape[0])  # here: float


@escaping
def bits_of_a_size(x):
    return x * x.shape[0].to_bytes(2, "big")[1]  # here: int


@escaping
def a_number_of_the_contents(x):
    return x * float(x.sum())  # here: item


@escaping
def a_function_of_a_number_of_the_contents(x):
    return x * math.sqrt(x.sum().abs())  # here: float


@escaping
def a_branch_on_the_contents(x):
    return x if (x > 0).all() else x.sum()  # here: bool


@escaping
def strides(x):
    return x * x.stride(1) * x.stride()[0]  # here: layout


@escaping
def squeezed(x):
    return x.squeeze(0) * 2  # here: branch


@pytest.mark.parametrize("name", ESCAPES)
def test_what_leaves_is_told_with_its_line(name, line_of, tmp_path):
    function = ESCAPES[name]
    dynamic = {"x": {0: "b"}}
    report = hx.scan(function, torch.randn(2, 3), dynamic=dynamic)
    line = line_of(function, "# here:")
    kind = linecache.getline(__file__, line).rstrip().rpartition("# here: ")[2]
    assert {(e.kind, e.where.file, e.where.line) for e in report.escapes} == {
        (kind, __file__, line)
    }
    path = tmp_path / "m.onnx"
    if kind == "range":  # as many rounds as there are, of a Loop: then nothing is lost
        hx.export(function, torch.randn(2, 3), path, dynamic=dynamic, strict=True)
        return
    with pytest.raises(hx.EscapeError) as caught:  # a proof may show that it changes nothing
        hx.export(function, torch.randn(2, 3), path, dynamic=dynamic, strict=True, verify=False)
    assert f"{__file__}:{line}" in str(caught.value) and "strict" in str(caught.value)
    assert not path.exists()


def test_sizes_that_do_not_vary_never_leave():
    for function in ESCAPES.values():
        if "content" not in function.__name__ and "list" != function.__name__[-4:]:
            assert hx.scan(function, torch.randn(2, 3)).escapes == [], function.__name__


def test_comparisons_that_are_always_the_same_are_no_branches(proved):
    def f(x, y):
        b, n = x.shape
        assert b >= 0 and n > -1 and b == x.shape[0] and x.shape == x.shape[:]
        assert x.shape[0] == y.shape[0] and not b != y.shape[0]
        assert x.flatten().shape[0] == b * n and x[:, :1].shape[0] == b
        return x + y[:, :1]

    program = proved(
        f, (torch.randn(2, 3), torch.randn(2, 5)), dynamic={"x": {0: "b", 1: "n"}, "y": {0: "b"}}
    )
    assert not program.report.escapes


# What is baked in fails the proof.


def baked_digits(x):
    return x * sum(map(int, str(x.shape[0])))


def baked_branch(x):
    return x * 2 if x.shape[0] > 2 else x.sum()


def baked_loop(x):
    for i in range(x.shape[0]):
        x = x + zlib.crc32(bytes([i % 256])) % 7
    return x


def baked_count(x):
    return x * bin(x.shape[0]).count("1")


@pytest.mark.parametrize("function", [baked_digits, baked_branch, baked_loop, baked_count])
def test_a_baked_size_fails_the_proof_and_nothing_is_written(function, tmp_path, line_of):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"the old one")
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Single(function), torch.randn(2, 3), path, dynamic={"x": {0: "b"}})
    told = str(caught.value)
    first = function.__code__.co_firstlineno
    assert any(f"{__file__}:{first + i}" in told for i in range(1, 5)), told
    assert "b=" in told
    assert path.read_bytes() == b"the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "function", [lambda x: x.shape[0] / (x + 9), lambda x: math.exp(x.shape[0] * 0.01) / (x + 9)]
)
def test_a_size_over_a_tensor_is_no_branch(function):
    program = hx.export(function, torch.randn(2, 3), dynamic={"x": {0: "n"}}, strict=True)
    assert program.proof.ok and not program.report.escapes
    x = torch.randn(7, 3)
    torch.testing.assert_close(program.run(x), function(x))


def test_a_size_without_a_name_is_told_by_the_call_that_it_came_from():
    """Two of one call are still two sizes: only what people read is the same."""

    def forward(x):
        y, z = x[x > 0], x[x > 1]
        return (y * 2 if y.shape[0] > 3 else y), len(y) * len(z) + 0 * x, int((x > 0).sum())

    report = hx.scan(forward, torch.randn(4, 5))
    told = "\n".join(map(str, report.escapes))
    assert "size(x[...]) > 3" in told and not re.search(r"\bv\d+", told), told
    found = [Value(torch.float32, (2,), serial=serial) for serial in (4, 5)]
    node = Node("NonZero", "", [], found, {}, Origin("torch.nonzero", "hx", "", "", "", 0))
    for value in found:
        value.node = node
    first, second = (Atom("size", (value, 0), 2) for value in found)
    assert f"{first}" == f"{second}" == "size(nonzero)" and str(first) != str(second)
