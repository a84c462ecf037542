"""Programs that random models were cut down to: each once gave a wrong graph, or none."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import hx

WORDS = {"x": {0: "b", 1: "n"}}
SIZES = [{"b": 2, "n": 9}, {"b": 1, "n": 1}, {"b": 7, "n": 8}]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, -(x.shape[1] // 2) :] + 0.0,  # -0 is the front, and takes everything
        lambda x: torch.ones_like(x[:, -(7 // x.shape[1]) :]),
        lambda x: x[:, x.shape[1] - 3 :].relu(),  # from the end where there are fewer than 3
        lambda x: x[:, : x.shape[1] - 5].sum(1),
        lambda x: (x[1:] - x[:-1]).mean(),  # of nothing at b = 1
        lambda x: F.mse_loss(x[:-2], x[2:]),
        lambda x: [(x[:-2] > 0).any(), (x[:-2] > 0).all(), (x[:-2] > 0).any(0), (x > 9).all(1)],
        lambda x: x[:, :-2].cumprod(1),  # a loop over nothing
        lambda x: x[:, :-3].cummax(1)[0],
        lambda x: F.layer_norm(x, (x.shape[1],)),
        lambda x: x.tensor_split(2, 1)[1] + x.tensor_split([1], 1)[0],
        lambda x: [part.sum() for part in x.tensor_split(3, 1)],
        lambda x: torch.zeros(2, x.shape[0]).ravel() + 1,
        lambda x: F.one_hot(x.long().abs() % 3, 3),
        lambda x: F.one_hot(x.long().abs() % 2, x.shape[1] + 1),
        lambda x: torch.cartesian_prod(x[0], x[:, 0]),
        lambda x: torch.arange(x.shape[0]) << 2,
        lambda x: (torch.arange(x.shape[0]) - 3) >> 1,
    ],
)  # fmt: skip
def test_at_every_size(proved, function):
    proved(function, torch.randn(3, 6), WORDS, SIZES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.double().nonzero(),
        lambda x: x[0, 0].flip(0) + x,
        lambda x: x[0, 0].masked_select(x[0, 0] < 100),
        lambda x: F.max_pool1d(x.repeat(1, 2)[None, :, :8], 2, 3, 1, ceil_mode=True),
        lambda x: F.avg_pool1d(x.repeat(1, 2)[None, :, :8], 2, 3, 1, ceil_mode=True),
        lambda x: F.max_pool1d(x[None, :, :5], 2, ceil_mode=True),
        lambda x: x[None, :, 3:3].diagonal() + 1,
        lambda x: F.one_hot(x.argmax() % 3, 3),
    ],
)  # fmt: skip
def test_at_one_size(proved, function):
    proved(function, torch.randn(3, 6))


def test_a_size_that_is_1_is_broadcast_to_a_fixed_one(proved):
    def along(x):
        return x.take_along_dim(x.transpose(0, 2).argmax(0, keepdim=True) % 6, 0)

    proved(along, torch.randn(6, 3, 1), {"x": {2: "m"}}, [{"m": 6}])


def test_the_name_of_a_size_says_what_it_is(proved):
    """45n // (30(n // 2)), and not (45n // 30)(n // 2)."""
    program = proved(
        lambda x: x[x.view(5, 3, -1, x.shape[3] // 2, 2).shape[2] :],
        torch.randn(5, 3, 3, 6),
        {"x": {3: "n"}},
        [{"n": 4}],
    )
    assert program.report.outputs[0]["shape"][0] != 0


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda x: x[0].expand(2, 6), 0),
        (lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0], (..., 0)),
        (lambda x: torch.broadcast_to(x[0], (4, 6)), 0),
    ],
)
def test_a_part_of_an_expanded_tensor_cannot_be_written(function, part):
    def write(x):
        y = function(x)
        y[part] = 1
        return y * 1

    with pytest.raises(hx.Unsupported, match="expanded"):
        hx.export(write, torch.randn(3, 6))


def test_a_view_that_was_written_to_is_returned_at_every_size(proved):
    """Its converter is asked once more, and reckons with sizes as it did the first time."""

    def doubled(x):
        view = x.diagonal()
        view.detach().mul_(2)
        return view

    def cleared(x):
        view = (x * 2).diagonal()
        view.narrow(0, 0, 1).zero_()
        return {"view": view}

    for function in (doubled, cleared):
        proved(function, torch.randn(4, 5), {"x": {1: "m"}}, [{"m": 1}, {"m": 3}, {"m": 9}])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.half().sub_(x),  # what is left is what half a float lost
        lambda x: x.half().sub_(x, alpha=2),
        lambda x: x.bfloat16().mul_(x).mul_(x.double()),
        lambda x: torch.sub(x.half(), x, out=torch.empty_like(x).half()),
        lambda x: x.half().clamp_(x - 1, x + 1),
    ],
)
def test_what_is_written_is_rounded_once(proved, function):
    proved(function, torch.randn(3, 6))


def test_a_view_that_overlaps_itself_cannot_be_written():
    def write(x):
        y = x * 1
        y.unfold(-1, 2, 1).add_(1)
        return y

    with pytest.raises(hx.Unsupported, match="several places"):
        hx.export(write, torch.randn(3, 6))


def test_a_view_of_parts_that_lie_apart_can_be_written(proved):
    def write(x):
        y = x * 1
        y.unfold(-1, 2, 2).add_(1)
        y.transpose(0, 1)[::2, 1].mul_(3)
        return y

    proved(write, torch.randn(3, 6))


def test_parts_of_a_constant_are_found_again(proved):
    def split(x):
        ones = torch.ones_like(x)
        part = ones.hsplit(2)[0]
        ones.mul_(3)
        return part + x[:, :3]

    proved(split, torch.randn(3, 6))
    proved(
        lambda x: torch.broadcast_tensors(torch.ones(6), torch.ones(3, 1))[0] + x, torch.randn(3, 6)
    )


def test_a_quantile_of_infinite_numbers_is_no_number(proved):
    inf = float("inf")
    rows = torch.tensor([[inf, inf, inf], [1, inf, inf], [-inf, 1, inf], [1, 2, 3]])
    for part in (0.0, 0.4, 0.9):
        proved(lambda x, part=part: x.quantile(part, 1), (rows,))


def test_a_branch_is_never_one_of_a_converter(proved):
    program = proved(lambda x: x.cummax(0)[0], torch.randn(3, 6), WORDS, SIZES)
    assert not program.report.escapes
