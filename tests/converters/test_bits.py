"""view(dtype): the same bits, read as numbers of another kind. ONNX says so from opset 26 on."""

from __future__ import annotations

import pytest
import torch

import hx


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(torch.int32) >> 3,
        lambda x: (x.view(dtype=torch.int32) & 0x7FFFFFFF).view(torch.float32),
        lambda x: x.half().view(torch.int16) + 1,
        lambda x: x.double().view(torch.int64).T,
        lambda x: x.view(torch.int32)[:, 1:].clone().zero_() + x[:, 1:],
    ],
)
def test_bits_are_read_as_another_dtype(function):
    example = torch.randn(2, 3)
    program = hx.export(function, example, dynamic={"x": {0: "n"}}, opset=26)
    assert torch.equal(program.run(x := torch.randn(5, 3)), function(x))
    with pytest.raises(hx.Unsupported, match="export with opset=26"):
        hx.export(function, example)


def test_a_view_as_the_dtype_that_it_has():
    program = hx.export(lambda x: x.view(dtype=torch.float32) + 1, torch.randn(2, 3))
    assert [node.op_type for node in program.model.graph] == ["Add"]


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.complex64])
def test_more_or_fewer_bits_are_refused(dtype):
    with pytest.raises(hx.Unsupported, match="numbers of as many bits"):
        hx.export(lambda x: x.view(dtype), torch.randn(2, 4), opset=26)


def written(x):
    y = x.clone()
    y.view(torch.int32)[0].fill_(0x3F800000)
    return y * 1


def read_afterwards(x):
    y = x.clone()
    bits = y.view(torch.int32)
    y.add_(1)
    return bits * 1


@pytest.mark.parametrize("function", [written, read_afterwards])
def test_memory_of_two_dtypes_that_is_written_to_is_refused(function):
    with pytest.raises(hx.Unsupported, match="read as two dtypes"):
        hx.export(function, torch.randn(2, 3), opset=26)
