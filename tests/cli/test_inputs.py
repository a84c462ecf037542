"""What `--input`, `--inputs` and `--dynamic` say that cannot be, or say twice."""

from __future__ import annotations

import numpy
import pytest
import torch

TWICE = "the input 'x' is given twice"


@pytest.fixture
def given(folder):
    numpy.savez(folder / "x.npz", x=numpy.ones((2, 4), "float32"))


@pytest.mark.parametrize(
    "words, told",
    [
        (
            ["-i", "x=float32[9999999999999]"],
            "not enough memory for --input 'x=float32[9999999999999]'",
        ),
        (["-i", "x=float32[99999999999999999999999]"], "not enough memory for --input 'x=float32["),
        (
            ["-i", "x=float32[b=99999999999999999999,4]"],
            "not enough memory for --input 'x=float32[b=",
        ),
        (
            ["-i", "x=float32[0,99999999999999999999]"],
            "not enough memory for --input 'x=float32[0,",
        ),
        (["-i", "x=bool[b>=99999999999999]"], "not enough memory for --input 'x=bool[b>="),
        (["-i", "x=int64[4]<1e30"], "int64 holds no number above 9223372036854775807"),
        (["-i", "x=uint8[4]<257"], "uint8 holds no number above 255"),
        (["-i", "x=float32[2,4]", "-i", "x=float32[3,4]"], TWICE),
        (["-i", "x=float32[2,4]", "--inputs", "x.npz"], TWICE),
        (["--inputs", "x.npz", "-d", "x:0=b,0=c"], "axis 0 of x has two names: b and c"),
        (
            ["--inputs", "x.npz", "-d", "x:0=b", "-d", "x:-2=c"],
            "axis 0 of x has two names: b and c",
        ),
        (["-i", "x=float32[b,4]", "-d", "x:0=c"], "axis 0 of x has two names: b and c"),
        (["-i", "x=float32[b>=16<=4,4]"], "no size is within the limits of 'b': 16 <= b <= 4"),
        (["--inputs", "x.npz", "-d", "x:0=b>=16<=4"], "no size is within the limits of 'b'"),
        (["-i", "x=float32[b%8>=9<=15,4]"], "9 <= b <= 15, a multiple of 8"),
        (
            ["-i", "x=float32[b>=16,4]", "-i", "scale=float32[b<=4,1]"],
            "no size is within the limits of 'b': 16 <= b <= 4",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_told_before_anything_is_made(hx, folder, given, words, told):
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    assert done.code == 2 and told in done.err and "--debug" not in done.err
    assert not (folder / "m.onnx").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["-i", "x=float32[b,4]", "-d", "x:0=b>=2<=64"],
        ["--inputs", "x.npz", "-d", "x:0=b,-2=b"],
        ["--inputs", "x.npz", "-i", "scale=float32[3]"],
    ],
    ids=" ".join,
)
def test_what_is_said_twice_alike_or_adds_to_it_is_taken(hx, folder, given, words):
    assert hx("export", "models.py:line", "-o", "m.onnx", *words).code == 0


@pytest.mark.parametrize("dtype", ["int8[2,4]<128", "uint64[2,4]<18446744073709551615"])
def test_the_whole_range_of_a_dtype_may_be_drawn(hx, folder, dtype):
    words = ["-i", f"ids={dtype}", "-i", f"mask={dtype}"]
    assert hx("inspect", "models.py:Several", *words).code == 0


def test_inputs_of_a_traced_model_go_by_its_names(hx, folder):
    with (folder / "models.py").open("a") as models:
        models.write("def traced(): return torch.jit.trace(nn.Linear(6, 4), torch.ones(2, 6))\n")
    done = hx("export", "models.py:traced", "-o", "m.onnx", "-i", "input=float32[n,6]", "--json")
    assert done.code == 0, done.err
    assert done.json["report"]["inputs"][0]["shape"] == ["n", 6]


def test_a_file_is_told_by_what_is_wrong_with_it(hx, folder):
    """Text is no pickle, whatever numpy says; and nobody is told how to run code that is in a file."""
    (folder / "text.npz").write_text("hello")
    done = hx("export", "models.py:line", "-o", "m.onnx", "--inputs", "text.npz")
    assert done.code == 2 and "cannot be read as .npz" in done.err and "pickle" not in done.err
    numpy.savez("named.npz", y=numpy.ones((2, 4), numpy.float32))
    done = hx("export", "models.py:line", "-o", "m.onnx", "--inputs", "named.npz")
    assert done.code == 2 and "no input 'y', as named.npz has it" in done.err
    torch.save(torch.nn.Linear(4, 3), "whole.pt")
    done = hx("export", "models.py:with_inputs", "-o", "m.onnx", "-w", "whole.pt")
    assert done.code == 2 and "torch.nn.modules.linear.Linear is in it" in done.err
    assert "add_safe_globals" not in done.err


def test_a_size_is_a_sum_of_others(hx, folder):
    code = """
import torch
class Cached(torch.nn.Module):
    def forward(self, past, x, mask):
        return torch.cat([past, x], 1) * mask
def build(): return Cached(), (torch.ones(2, 5), torch.ones(2, 3), torch.ones(2, 8))
"""
    (folder / "cached.py").write_text(code)
    words = ["-o", "m.onnx", "-d", "past:1=past", "-d", "x:1=new"]
    done = hx("export", "cached.py:build", *words, "-d", "mask:1=past + new", "--json")
    assert done.code == 0, done.err
    shapes = [each["shape"] for each in done.json["report"]["inputs"]]
    assert shapes == [[2, "past"], [2, "new"], [2, "new + past"]]
    done = hx("export", "cached.py:build", *words, "-d", "mask:1=past + other")
    assert done.code == 2 and "no axis is other" in done.err
    done = hx("export", "cached.py:build", *words, "-d", "mask:1=past + +")
    assert done.code == 2


def test_further_files_are_further_cases(hx, folder, given):
    numpy.savez("y.npz", x=numpy.ones((7, 4), "float32"))
    numpy.savez("wide.npz", x=numpy.ones((7, 5), "float32"))
    words = ["--inputs", "x.npz", "-d", "x:0=n"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words, "--inputs", "y.npz", "--json")
    assert done.code == 0, done.err
    assert "y.npz" in [case["name"] for case in done.json["report"]["proof"]["cases"]]
    done = hx("verify", "m.onnx", "models.py:line", *words, "--inputs", "y.npz", "--json")
    assert done.code == 0, done.err
    assert "y.npz" in [case["name"] for case in done.json["proof"]["cases"]]
    for command in (["export", "models.py:line"], ["verify", "m.onnx", "models.py:line"]):
        done = hx(*command, *words, "--inputs", "wide.npz")
        assert done.code == 2 and "axis 1 of x in wide.npz is 5" in done.err


def test_a_further_file_is_no_place_for_the_result(hx, folder, given):
    numpy.savez("y.npz", x=numpy.ones((7, 4), "float32"))
    words = ["--inputs", "x.npz", "--inputs", "y.npz", "--report", "y.npz.json"]
    assert hx("export", "models.py:line", "-o", "m.onnx", *words, "-d", "x:0=n").code == 0
    done = hx("scan", "models.py:line", "--inputs", "x.npz")
    assert done.code == 0, done.err
