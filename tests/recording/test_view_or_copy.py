"""Calls that give a view or a copy, as sizes have it: what a write through them reaches."""

from __future__ import annotations

import pytest
import torch

import hx


def flattened_rows(x):
    row = x[..., -2:]
    row.flatten(-2)[0] += 1
    return row


def raveled(x):
    rows = x[::2]
    rows.ravel()[-1] = 3
    return x * 1


def reshaped_then_written(x):
    part = x[:, 1 : x.shape[1]]
    flat = part.reshape(-1)
    part.mul_(2)
    return flat


def made_contiguous(x):
    turned = x.t()
    turned.contiguous().mul_(2)
    return turned + 0


def of_one_column(x):
    part = x[: x.shape[0] : 9]  # one row, or more
    flat = part.t().reshape(-1)
    flat.mul_(2)
    return part + 0


def of_all_there_was(x):
    part = x.t()[:, -5:].relu()[:, -5:]  # five, which is all of them, or fewer than all
    part.reshape(-1)[0] = 3
    return part + 0


def contiguous_already(x):
    y = x.t() + 0
    y[:, :5].contiguous().mul_(2)
    return y


@pytest.mark.parametrize(
    "function",
    [
        contiguous_already,
        of_all_there_was,
        of_one_column,
        flattened_rows,
        raveled,
        reshaped_then_written,
        made_contiguous,
    ],
    ids=lambda f: f.__name__,
)
def test_a_write_that_reaches_another_tensor_at_some_sizes_only_is_told(function, line_of):
    program = hx.export(function, torch.randn(5, 6), dynamic={"x": {0: "b"}}, verify=False)
    (escape,) = program.report.escapes
    assert escape.kind == "layout" and escape.where.file == __file__
    with pytest.raises(hx.HxError, match="as a view, or a copy"):
        hx.export(function, torch.randn(5, 6), dynamic={"x": {0: "b"}}, strict=True, verify=False)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(-1).mul_(2).sum() + x.sum(),  # a view at any size
        lambda x: x[:, None].reshape(x.shape[0], -1).add_(1) + x,
        lambda x: x.unsqueeze(1).permute(0, 2, 1).reshape(x.shape[0], 2, 3).add_(1) * 2,
        lambda x: (x.reshape(x.shape[0], 2, 3).transpose(1, 2).contiguous().mul_(2), x * 1),
        lambda x: x[:, ::2].reshape(-1).relu_() * 2,  # nobody reads the other one
        lambda x: x[-5:].contiguous().mul_(2).sum() + x.sum(),
        lambda x: x[-5:].reshape(-1).mul_(2).sum() + x.sum(),  # the last rows lie together
    ],
)
def test_a_write_that_reaches_the_same_tensors_at_any_size_is_not(proved, function):
    program = proved(function, torch.randn(5, 6), {"x": {0: "b"}}, [{"b": 1}, {"b": 7}])
    assert not program.report.escapes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 4:2],
        lambda x: x[:, 4:2].unsqueeze(1).transpose(0, 2),
        lambda x: x.t()[6:, 1 : x.shape[0]],
        lambda x: x[:, 6:][: x.shape[0] // 2],
    ],
)
def test_a_write_to_nothing_changes_nothing(proved, function):
    def model(x):
        y = x * 2
        function(y)[...] = 1
        function(y)[:1] = 1
        function(y).add_(1)
        return y, function(y)

    proved(model, torch.randn(5, 6), {"x": {0: "b"}}, [{"b": 2}, {"b": 7}])
