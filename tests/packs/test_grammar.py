"""The input grammar: what is read, what is made, and where the caret points."""

from __future__ import annotations

import pytest
import torch

from hx import UsageError
from hx.ir.input_grammar import TensorSpec, choose_sizes, looks_like_spec, parse_input, parse_spec


@pytest.mark.parametrize(
    ("text", "name", "dtype", "dims", "high"),
    [
        ("x=float32[batch,3,224,224]", "x", "float32", ("batch", 3, 224, 224), None),
        ("ids = int64[b, s] < 30000", "ids", "int64", ("b", "s"), 30000),
        ("f32[]", None, "float32", (), None),
        ("mask=bool[2]", "mask", "bool", (2,), None),
        ("bf16[0,1]", None, "bfloat16", (0, 1), None),
        ("half[2]", None, "float16", (2,), None),
        ("u8[h=4,w]<2", None, "uint8", ("h", "w"), 2),
        ("x=float32[n]<0.5", "x", "float32", ("n",), 0.5),
    ],
)
def test_what_is_read(text, name, dtype, dims, high):
    got, spec = parse_input(text)
    assert (got, spec.dtype, spec.dims, spec.high) == (name, dtype, dims, high)


@pytest.mark.parametrize(
    ("text", "caret", "words"),
    [
        ("x=float33[2]", 2, "did you mean float32?"),
        ("x=flot[2]", 2, "did you mean float32?"),
        ("x=int[2]", 2, "int64 or int32"),
        ("x=float32[2,,3]", 12, "a size or the name of a dim is missing"),
        ("x=float32[2,-3]", 12, "cannot be negative"),
        ("x=float32(2)", 9, "a shape in [] has to follow"),
        ("x=float32[2 3]", 12, "a ',' or the closing ']'"),
        ("x=float32[2", 11, "closing ']'"),
        ("x=float32[b<8]", 11, "write b>=4<=512"),
        ("x=float32[4<=b]", 11, "write dim>=4<=512"),
        ("x=float32[b=4..8]", 13, "write b>=4<=512"),
        ("x=float32[2]]", 12, "too much"),
        ("x=int64[2]<", 11, "upper bound"),
        ("x=int64[2]<0", 11, "above 0"),
        ("x=bool[2]<1", 10, "no upper bound"),
        ("x=float32[b=]", 12, "has to be a number"),
        ("x=float32[b=2,b=3]", 16, "already is 2"),
        ("x=float32[b>=]", 13, "what 'b' is >= of has to be a number"),
        ("x=float32[b%]", 12, "what 'b' is a multiple of has to be a number"),
        ("x=float32[b%0]", 12, "a multiple of a number above 0"),
        ("=float32[2]", 0, "a name is missing"),
        ("", 0, "a dtype is missing"),
    ],
)
def test_a_mistake_is_shown_with_a_caret_under_it(text, caret, words):
    with pytest.raises(UsageError) as caught:
        parse_input(text)
    lines = str(caught.value).splitlines()
    assert lines[1] == f"    {text}" and lines[2] == " " * (4 + caret) + "^"
    assert words in str(caught.value)


def test_words_are_the_dims_that_may_change():
    assert parse_spec("float32[batch,3,h,h]").dynamic == {0: "batch", 2: "h", 3: "h"}


def test_limits_of_a_dim_are_kept_and_its_size_is_within_them():
    spec = parse_spec("float32[b, s >= 40 <= 64, h=8>=4]")
    assert str(spec) == "float32[b,s>=40<=64,h=8>=4]"
    assert spec.dynamic == {0: "b", 1: "s>=40<=64", 2: "h>=4"}
    assert spec.shape()[0] == 2 and 40 <= spec.shape()[1] <= 64 and spec.shape()[2] == 8


def test_a_dim_that_is_a_multiple_has_such_a_size():
    spec = parse_spec("float32[b, h%32, w % 8 >= 81, s<=48%16, t%16, n=9%3]")
    assert str(spec) == "float32[b,h%32,w%8>=81,s<=48%16,t%16,n=9%3]"
    assert parse_spec(str(spec)) == spec and spec.dynamic[2] == "w%8>=81"
    assert spec.shape() == (2, 64, 88, 16, 32, 9)


def test_sizes_are_the_same_for_one_word_and_differ_between_words():
    specs = [parse_spec("float32[a,b,c,batch]"), parse_spec("float32[c,a=9]")]
    sizes = choose_sizes(specs)
    assert sizes["a"] == 9 and len(set(sizes.values())) == 4
    assert specs[1].shape(sizes) == (sizes["c"], 9)


def test_two_sizes_for_one_word_are_refused():
    with pytest.raises(UsageError, match="'a' is 2 in one input and 3 in another"):
        choose_sizes([parse_spec("f32[a=2]"), parse_spec("f32[a=3]")])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_tensors_are_made_of_the_dtype_and_alike_for_one_seed(dtype):
    spec = TensorSpec(dtype, ("n", 50))
    before = torch.random.get_rng_state()
    one, two, other = spec.make({"n": 4}, 1), spec.make({"n": 4}, 1), spec.make({"n": 4}, 2)
    assert one.shape == (4, 50) and str(one.dtype) == f"torch.{dtype}"
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_bounds_hold():
    ints = parse_spec("int64[1000]<7").make()
    assert ints.min() == 0 and ints.max() == 6
    floats = parse_spec("float32[1000]<0.5").make()
    assert floats.min() >= 0 and floats.max() < 0.5


def test_a_spec_reads_back_what_it_prints():
    for text in ("float32[batch,3]", "int64[b=4,s]<100", "bool[]", "float32[2]<0.5"):
        assert str(parse_spec(text)) == text


@pytest.mark.parametrize(
    ("text", "is_spec"),
    [("float32[2]", True), ("int64[n,s]<100", True), ("same", False), ("bij,bjk->bik", False),
     ("x[0]", True), ("[2]", False), (2, False)],
)  # fmt: skip
def test_plain_strings_in_cases_are_not_taken_for_tensors(text, is_spec):
    assert looks_like_spec(text) is is_spec
