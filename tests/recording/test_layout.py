"""Strides, and views by strides, where sizes may vary: followed where no memory is skipped."""

from __future__ import annotations

import pytest
import torch

import hx


def overlapping(x):
    """Chunks of 4 that begin every 2, as windowed attention cuts them."""
    chunks = x.view(x.size(0), x.size(1) // 4, 4, x.size(2))
    sizes, strides = list(chunks.size()), list(chunks.stride())
    sizes[1] = sizes[1] * 2 - 1
    strides[1] = strides[1] // 2
    return chunks.as_strided(size=sizes, stride=strides)


def exchanged(x):
    """The same of memory whose axes lie in another order than the tensor's."""
    return overlapping(x.transpose(0, 1))


def counted(x):
    """A number of rows that a tensor says."""
    rows = torch.div(x.size(0), 2, rounding_mode="trunc")
    return (x * 1).as_strided((rows, 3), (x.stride(0) * 2, x.stride(1)), 1)


@pytest.mark.parametrize(
    "model, shape, dynamic",
    [
        (overlapping, (2, 8, 3), {0: "batch"}),
        (overlapping, (2, 8, 3), {0: "batch", 2: "width"}),
        (exchanged, (8, 2, 3), {1: "batch"}),
        (counted, (6, 4), {0: "rows", 1: "columns"}),
    ],
)
def test_views_by_strides_at_other_sizes(proved, model, shape, dynamic):
    sizes = [{"batch": 5, "width": 7, "rows": 8, "columns": 9}]
    proved(model, (torch.randn(shape),), dynamic={"x": dynamic}, sizes=sizes)


def test_a_view_by_strides_of_what_skips_memory_is_refused():
    def model(x):
        return x[:, :2].as_strided((x.shape[0], 2), (1, 1))

    with pytest.raises(hx.Unsupported, match="where they lie in memory"):
        hx.export(model, (torch.randn(8, 3),), dynamic={"x": {0: "batch"}})


def test_a_place_in_memory_that_follows_from_a_size_is_told():
    def model(x):
        return x * 2 if x[x.shape[0] - 1 :].storage_offset() == 48 else x

    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    assert any("storage_offset" in str(escape) for escape in program.report.escapes)
