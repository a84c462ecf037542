"""Attention in which several heads of queries share one of keys and values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import hx


class Attends(nn.Module):
    def __init__(self, shared, **options):
        super().__init__()
        self.shared, self.options = shared, options

    def forward(self, q, k, v, mask):
        k, v = (self.shared(x) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, **self.options)


def behind(x):
    """As transformers writes it."""
    n, heads, length, width = x.shape
    x = x[:, :, None].expand(n, heads, 3, length, width)
    return x.reshape(n, heads * 3, length, width)


def interleaved(x):
    return x.repeat_interleave(3, dim=1)


def by_turns(x):
    return x.repeat(1, 3, 1, 1)


def one_for_all(x):
    return x[:, :1].expand(-1, 6, -1, -1)


ARGS = (
    torch.randn(2, 6, 3, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4),
    torch.rand(2, 1, 3, 5) > 0.4,
)  # fmt: skip
DYNAMIC = {
    "q": {0: "n", 2: "s"}, "k": {0: "n", 2: "t"}, "v": {0: "n", 2: "t"},
    "mask": {0: "n", 2: "s", 3: "t"},
}  # fmt: skip


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("shared", [nn.Identity(), behind, interleaved])
def test_keys_are_not_copied(shared, opset):
    model = Attends(shared, enable_gqa=isinstance(shared, nn.Module))
    program = hx.export(model, ARGS, dynamic=DYNAMIC, opset=opset)
    assert program.proof.ok and not program.report.escapes
    assert "Expand" not in [node.op_type for node in program.model.graph]
    q, k, v, _ = ARGS
    for mask in (torch.ones(2, 1, 3, 5).bool(), torch.zeros(2, 1, 3, 5).bool()):
        given = q, k, v, mask
        torch.testing.assert_close(program.run(*given), model(*given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [by_turns, one_for_all])
def test_heads_in_another_order_stay_as_they_are(shared):
    program = hx.export(Attends(shared), ARGS, dynamic=DYNAMIC)
    assert program.proof.ok and not program.report.escapes


def test_keys_and_values_that_are_shared_by_other_numbers_of_heads():
    class Uneven(nn.Module):
        def forward(self, q, k, v):
            k, v = k.repeat_interleave(3, 1), v.repeat_interleave(2, 1)
            return F.scaled_dot_product_attention(q, k, v)

    q, k, v = (torch.randn(2, heads, 5, 4) for heads in (6, 2, 3))
    assert hx.export(Uneven(), (q, k, v), opset=23).proof.ok
    assert hx.export(Uneven(), (q, k, v), opset=17).proof.ok


@pytest.mark.parametrize("bias", [causal_upper_left, causal_lower_right])
def test_masks_that_pytorch_keeps_as_two_numbers(bias):
    def model(q, k):
        return F.scaled_dot_product_attention(q, k, k, attn_mask=bias(q.shape[2], k.shape[2]))

    def given(queries, keys):
        return torch.randn(1, 2, queries, 4), torch.randn(1, 2, keys, 4)

    program = hx.export(model, given(3, 6), dynamic={"q": {2: "s"}, "k": {2: "t"}})
    assert program.proof.ok and not program.report.escapes
    for each in (given(2, 9), given(5, 5)):
        torch.testing.assert_close(program.run(*each), model(*each))


@pytest.mark.parametrize("which", ["in_proj_weight", "out_proj"])
def test_weights_that_are_computed_as_they_are_read(which):
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    if which == "out_proj":
        nn.utils.parametrizations.weight_norm(model.out_proj)
    else:
        nn.utils.parametrizations.weight_norm(model, which)
    model.eval()
    program = hx.export(model, (torch.randn(2, 6, 8),) * 3, dynamic=[{0: "n", 1: "s"}] * 3)
    x = torch.randn(3, 5, 8)
    torch.testing.assert_close(program.run(x, x, x)[0], model(x, x, x)[0], rtol=1e-4, atol=1e-5)
