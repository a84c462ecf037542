"""Pairs of nodes that are said as one; and still the graph computes what the model computes."""

from __future__ import annotations

import math

import pytest
import torch
from called import Single
from torch import nn
from torch.nn import functional as F

import hx


def ops(function, *shape, dynamic=None):
    program = hx.export(Single(function), torch.randn(*shape), dynamic={"x": dynamic or {}})
    assert program.proof.ok
    return [node.op_type for node in program.model.graph]


def test_permutations_meet():
    assert ops(lambda x: x.permute(2, 0, 1).transpose(0, 1).sin(), 2, 3, 4) == ["Transpose", "Sin"]
    assert ops(lambda x: x.mT.mT.sin(), 2, 3, 4) == ["Sin"]
    assert ops(lambda x: x.permute(0, 1, 2).sin(), 2, 3, 4) == ["Sin"]


def test_a_permutation_that_is_read_elsewhere_stays():
    def both(x):
        y = x.transpose(1, 2)
        return y.sin(), y.transpose(0, 1)

    assert sorted(ops(both, 2, 3, 4)) == ["Sin", "Transpose", "Transpose"]


def test_what_is_left_of_two_permutations_may_be_an_output():
    assert ops(lambda x: x.mT.mT, 2, 3, 4) == ["Identity"]


def test_of_two_shapes_the_last_counts():
    assert ops(lambda x: x.view(6, 4).view(3, 8).sin(), 2, 3, 4) == ["Reshape", "Sin"]
    # A size that stays "as it was" is read from the shape between.
    found = ops(lambda x: x.view(len(x), 12).view(len(x), 4, 3), 2, 3, 4, dynamic={0: "batch"})
    assert found[-1] == "Reshape"


def test_a_shape_that_changes_nothing_goes():
    def there_and_back(x):
        heads = x.view(*x.shape[:2], 2, 3).transpose(1, 2)
        return heads.transpose(1, 2).reshape(x.shape).sin()

    axes = {0: "batch", 1: "sequence"}
    assert ops(there_and_back, 2, 5, 6, dynamic=axes) == ["Sin"]
    # Sizes that were equal when it was recorded are not the same size.
    found = ops(lambda x: x.reshape(x.shape[1], x.shape[0], 6).sin(), 5, 5, 6, dynamic=axes)
    assert "Reshape" in found


def test_axes_put_in_and_taken_out():
    assert ops(lambda x: x.unsqueeze(1).squeeze(1).sin(), 2, 3) == ["Sin"]
    assert ops(lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(0), 2, 3) == ["Unsqueeze"]


def test_the_root_mean_square_is_in_the_form_that_runtimes_know():
    weight = torch.rand(4)

    def rms(x):
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    known = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    assert ops(rms, 2, 3, 4) == known
    assert ops(lambda x: F.rms_norm(x, (4,), weight, 1e-6), 2, 3, 4) == known
    # A reciprocal of something else overflows where a quotient does not: it stays.
    assert ops(lambda x: x * x.abs().reciprocal(), 2, 3) == ["Abs", "Reciprocal", "Mul"]


def test_an_axis_beside_the_same_axis_cut_off_keeps_its_name():
    """Position embeddings: the sum is as long as the sequence, or torch would have refused."""
    table = torch.randn(1, 8, 4)
    program = hx.export(
        Single(lambda x: F.layer_norm(x + table[:, : x.shape[1]], (4,))),
        torch.randn(2, 3, 4),
        dynamic={"x": {0: "batch", 1: "sequence"}},
    )
    shapes = {n.op_type: [str(d) for d in n.outputs[0].shape] for n in program.model.graph}
    assert shapes["Add"] == shapes["LayerNormalization"] == ["batch", "sequence", "4"]


class Masked(nn.Module):
    def forward(self, x, mask):
        y = F.scaled_dot_product_attention(x, x, x, mask)
        return F.scaled_dot_product_attention(y, y, y, mask)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_sees_nothing_gives_zeros(kind):
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    mask[1, :, :, :3] = False  # padding on the left: the first queries see nothing
    given = mask if kind == "bool" else torch.where(mask, 0.0, -math.inf)
    program = hx.export(Masked(), (torch.randn(2, 2, 5, 4), given))
    assert program.proof.ok
    found = [node.op_type for node in program.model.graph]
    # What the mask needs is done once; each layer adds it, and drops the rows of nothing.
    assert found.count("ReduceMax") == 1 and found.count("Where") <= 2
    assert found.count("IsNaN") == 0 and found.count("Softmax") == 2


def test_a_mask_that_is_known_is_not_guarded():
    mask = torch.ones(5, 5, dtype=torch.bool).tril()

    def attend(x):
        return F.scaled_dot_product_attention(x, x, x, mask)

    assert "ReduceMax" not in ops(attend, 2, 2, 5, 4)
    mask[0] = False
    assert "ReduceMax" in ops(attend, 2, 2, 5, 4)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_attention_modules_with_masks_of_both_kinds(batch_first, weights):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)

        def forward(self, x, padding, mask):
            return self.attention(
                x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=weights
            )[: 2 if weights else 1]

    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    x = torch.randn(3, 5, 8) if batch_first else torch.randn(5, 3, 8)
    for mask in (torch.ones(5, 5, dtype=torch.bool).triu(1), torch.randn(6, 5, 5)):
        padding_of_its_kind = padding if mask.dtype == torch.bool else padding * -4.0
        assert hx.export(Model(), (x, padding_of_its_kind, mask)).proof.ok
