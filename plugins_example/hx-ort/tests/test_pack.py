"""Tests of the pack as users install it."""

import copy
import subprocess
import sys

import hx_ort
import pytest
import torch
from torch import nn

import hx
from hx import Registry

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def names(program):
    return [f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in program.model.graph]


def test_the_pack_is_found_and_sound():
    pack = Registry.installed().pack("hx-ort")
    assert pack.status == "ok", pack.error
    assert not [f for f in pack.findings if f.level == "error"], pack.findings


def test_listing_packs_does_not_wait_for_torch():
    code = "import sys, hx_ort.plugin, hx_ort.language; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Attend(nn.Module):
    def forward(self, x):
        q = x.view(*x.shape[:2], 4, 8).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(q, q, q)
        return y.transpose(1, 2).reshape(x.shape)


def test_attention_is_one_node_when_it_is_chosen_and_only_then():
    x, axes = torch.randn(2, 5, 32), {"x": {0: "batch", 1: "sequence"}}
    plain = hx.export(Attend(), x, dynamic=axes)
    assert "com.microsoft::MultiHeadAttention" not in names(plain)
    chosen = hx.export(
        Attend(), x, dynamic=axes, packs=Registry.installed(use={ATTENTION: "hx-ort"})
    )
    # What lays out the heads before and after it is gone, too.
    assert names(chosen) == ["com.microsoft::MultiHeadAttention"] and chosen.proof.ok


class Continue(nn.Module):
    """A step that attends to what is kept, too: that lies by head, as ONNX's products take it."""

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def test_what_is_kept_from_step_to_step_is_not_transposed():
    chosen = Registry.installed(use={ATTENTION: "hx-ort"})
    args = torch.randn(1, 4, 1, 8), torch.randn(1, 4, 9, 8), torch.randn(1, 4, 9, 8)
    axes = {"k": {2: "s"}, "v": {2: "s"}}
    assert names(hx.export(Continue(), args, dynamic=axes, packs=chosen)) == names(
        hx.export(Continue(), args, dynamic=axes)
    )


@pytest.mark.parametrize(("columns", "block"), [(256, 32), (300, 32), (512, 128)])
def test_four_bits_are_right_and_small(tmp_path, columns, block):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(columns, 512), nn.ReLU(), nn.Linear(512, 256), nn.Linear(256, 3)
    )
    small = hx_ort.quantize(copy.deepcopy(model), block, least=256)
    assert [type(m).__name__ for m in small] == ["Linear4", "ReLU", "Linear4", "Linear"]
    x = torch.randn(4, 7, columns)
    hx.export(model, x, tmp_path / "full.onnx")
    program = hx.export(
        small, x, tmp_path / "small.onnx", dynamic={"input": {0: "batch", 1: "sequence"}}
    )
    assert program.proof.ok and names(program).count("com.microsoft::MatMulNBits") == 2
    sizes = [(tmp_path / name).stat().st_size for name in ("full.onnx", "small.onnx")]
    assert sizes[0] > 5 * sizes[1]
    # 15 steps from the lowest to the highest weight of a block: half a step is lost at most.
    full, four = model[0].weight, small[0].weight
    step = full.abs().max() / 7
    assert (full - four).abs().max() <= step / 2 * 1.001


def test_a_weight_that_is_shared_stays():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(512, 256), nn.Linear(256, 512, bias=False)
            self.head.weight = self.embedding.weight

    assert type(hx_ort.quantize(Tied(), least=0).head) is nn.Linear
    with pytest.raises(ValueError, match="block is 48"):
        hx_ort.quantize(nn.Linear(512, 512), block=48)
