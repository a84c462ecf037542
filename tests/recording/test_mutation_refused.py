"""Writes that a graph cannot say, or that nobody saw: refused or told, with the line."""

from __future__ import annotations

import pytest
import torch
from called import Single

import hx


def resized(x):
    y = x * 2
    y.resize_(2, 2)
    return y


def given_memory(x):
    y = x * 2
    y.set_(x)
    return y


def turned_by_strides(x):
    y = x * 2
    y.as_strided_((2, 2), (1, 2))
    return y


@pytest.mark.parametrize(
    "function, text", [(resized, "resize_"), (given_memory, "set_("), (turned_by_strides, "as_st")]
)
def test_other_memory_is_refused(function, text, line_of):
    with pytest.raises(hx.Unsupported, match="other memory") as caught:
        hx.export(Single(function), torch.randn(3, 6))
    assert caught.value.where.line == line_of(function, text)
    assert caught.value.where.file == __file__
    assert "hint" in str(caught.value)


def test_constants_may_change_their_memory(proved):
    def build(x):
        c = torch.zeros(6)
        first = x + c
        c.resize_(3).fill_(2)
        d = torch.empty(0).set_(torch.ones(2, 3))
        return first, x[:, :3] * c + d[0]

    proved(Single(build), torch.randn(3, 6), dynamic={"x": {0: "b"}}, sizes=[{"b": 5}])


def test_a_write_that_nobody_saw_is_refused_and_says_where(tmp_path, line_of):
    def through_numpy(x):
        y = x * 2
        y.numpy().fill(5)
        return y + 1

    path = tmp_path / "m.onnx"
    with pytest.raises(hx.Unaccounted) as caught:
        hx.export(Single(through_numpy), torch.randn(3, 6), path)
    assert f"{__file__}:{line_of(through_numpy, 'numpy()')}" in str(caught.value)
    assert not path.exists()


def test_reading_an_address_is_noted(line_of):
    def addressed(x):
        y = x * 2
        y.data_ptr()
        return y

    report = hx.scan(Single(addressed), torch.randn(3))
    (escape,) = report.escapes
    assert escape.kind == "data_ptr" and escape.where.line == line_of(addressed, "data_ptr")
    with pytest.raises(hx.EscapeError):
        hx.export(Single(addressed), torch.randn(3), strict=True)


def test_random_numbers_in_place_are_drawn_and_not_frozen():
    def noisy(x):
        return x + torch.empty(3).normal_()

    program = hx.export(Single(noisy), torch.randn(3))
    assert any(node.op_type.startswith("RandomNormal") for node in program.model.graph)


def test_a_write_without_a_converter_is_missing_not_lost(line_of):
    def erfinv(x):
        y = torch.zeros_like(x)
        y.copy_(x)
        y.erfinv_()
        return y

    @hx.converter("torch.Tensor.copy_")
    def kept(op, self, src, non_blocking=False):
        op.assign(self, src)
        return src

    @hx.converter("torch.zeros_like")
    def zeros(op, input):
        return op.Mul(input, 0)

    with pytest.raises(hx.MissingConverters, match="erfinv_"):
        hx.export(Single(erfinv), torch.rand(3), packs=hx.Registry.of(kept, zeros))
