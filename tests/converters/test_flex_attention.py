"""Attention by functions of places: with all that its caller may ask for, at other sizes."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import hx

TABLE = torch.linspace(-1, 1, 160).reshape(4, 40)


def causal(b, h, q, k):
    return q >= k


def blind(b, h, q, k):
    """The first queries may look at nothing."""
    return (q >= k) & (q > 2)


def nearer(score, b, h, q, k):
    return score + (k - q) * 0.1 * (h + 1)


def by_table(score, b, h, q, k):
    return score + TABLE[h, (q - k).abs()]


def capped(score, b, h, q, k):
    return 20 * torch.tanh(score / 20)


def tensors(length, heads=4, dtype=torch.float32):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, n, length, 16, dtype=dtype) for n in (4, heads, heads))
    return q, k, v


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for t in (result[0], *(result[1] if isinstance(result[1], tuple) else result[1:]))
            if t is not None]  # fmt: skip


def held(function, few, many, dynamic=None):
    program = hx.export(function, few, dynamic=dynamic)
    assert program.proof.ok and not program.report.escapes
    found, expected = flat(program.run(*many)), flat(function(*many))
    assert len(found) == len(expected)
    for mine, real in zip(found, expected):
        torch.testing.assert_close(mine, real)


@pytest.mark.parametrize("score", [None, nearer, by_table, capped])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_scores_at_any_length(score, dtype):
    def model(q, k, v):
        return flex_attention(q, k, v, score_mod=score)

    dynamic = {name: {0: "b", 2: "s"} for name in "qkv"}
    held(model, tensors(8, dtype=dtype), tensors(13, dtype=dtype), dynamic)


@pytest.mark.parametrize("mask", [causal, blind])
@pytest.mark.parametrize("score", [None, by_table])
def test_masks(mask, score):
    blocks = create_block_mask(mask, None, None, 8, 8, device="cpu")

    def model(q, k, v):
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks)

    held(model, tensors(8), tensors(8), {name: {0: "b"} for name in "qkv"})


def test_fewer_heads_and_another_scale():
    def model(q, k, v):
        return flex_attention(q, k, v, nearer, enable_gqa=True, scale=0.3)

    held(model, tensors(8, 2), tensors(8, 2))


def test_logarithms_of_sums_beside_it():
    def model(q, k, v):
        return flex_attention(q, k, v, nearer, return_aux=AuxRequest(lse=True))

    held(model, tensors(8), tensors(8))


def test_an_operator_of_functions_that_nobody_knows_is_refused_at_its_line():
    from torch._higher_order_ops.foreach_map import foreach_map

    def model(x):
        return foreach_map(torch.sin, [x])[0]

    with pytest.raises(hx.Unsupported, match="foreach_map takes functions") as caught:
        hx.export(model, torch.randn(3))
    assert caught.value.where.file == __file__
