"""A language model of transformers, with what it keeps from step to step; no length is fixed."""

import collections

import pytest
import torch
from torch import nn

import hx
from hx import Registry

if not hasattr(torch.ops.torchvision, "nms"):
    # Some wheels of torchvision lack their operators, and transformers imports it where it is.
    schemas = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        schemas.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

transformers = pytest.importorskip("transformers")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

LENGTHS = {
    "tokens": {0: "n", 1: "s"},
    "mask": {0: "n", 1: "p + s"},
    **{f"past_{layer}_{each}": {0: "n", 2: "p"} for layer in range(2) for each in range(2)},
}


class Step(nn.Module):
    def __init__(self, family, shared):
        super().__init__()
        config = getattr(transformers, f"{family}Config")(
            vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=shared, head_dim=8,
        )  # fmt: skip
        self.shared = shared
        self.model = getattr(transformers, f"{family}Model")(config).eval()

    def forward(self, tokens, mask, past):
        cache = transformers.DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        hidden = self.model(tokens, attention_mask=mask, past_key_values=cache).last_hidden_state
        return hidden, [(layer.keys, layer.values) for layer in cache.layers]

    def inputs(self):
        past = [tuple(torch.randn(2, self.shared, 5, 8) for _ in "kv") for _ in range(2)]
        return torch.randint(0, 50, (2, 3)), torch.ones(2, 8, dtype=torch.int64), past


def exported(model, args, use=None, **options):
    program = hx.export(model, args, packs=Registry.installed(use=use or {}), **options)
    assert program.proof.ok
    return program, collections.Counter(
        f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in program.model.graph
    )


@pytest.mark.parametrize(
    ("family", "shared", "opset"), [("Llama", 2, 17), ("Qwen2", 1, 23), ("Mistral", 4, 20)]
)
def test_chosen_it_turns_in_one_node(family, shared, opset):
    torch.manual_seed(0)
    model = Step(family, shared)
    _, before = exported(model, model.inputs(), dynamic=LENGTHS, opset=opset)
    assert not any("::" in name for name in before) and "RotaryEmbedding" not in before
    _, after = exported(
        model, model.inputs(), {"transformers.*": "hx-ort"}, dynamic=LENGTHS, opset=opset
    )
    assert after["RotaryEmbedding" if opset >= 23 else "com.microsoft::RotaryEmbedding"] == 4
    assert sum(after.values()) < sum(before.values()) and not after["Neg"]


class Turns(nn.Module):
    def __init__(self, tables):
        super().__init__()
        self.tables = tables

    def forward(self, q, k, angles):
        return llama.apply_rotary_pos_emb(q, k, *self.tables(angles))


def alike(angles):
    angles = torch.cat([angles, angles], -1)
    return angles.cos() * 0.5, angles.sin().float()


def unlike(angles):
    angles = torch.cat([angles, 2 * angles], -1)
    return angles.cos(), angles.sin()


@pytest.mark.parametrize(("tables", "nodes"), [(alike, 2), (unlike, 0)])
def test_where_the_halves_of_a_head_turn_otherwise_it_is_written_out(tables, nodes):
    args = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(1, 5, 4)
    axes = {"q": {0: "n", 2: "s"}, "k": {0: "n", 2: "s"}, "angles": {1: "s"}}
    _, count = exported(Turns(tables), args, {"transformers.*": "hx-ort"}, dynamic=axes)
    assert count["com.microsoft::RotaryEmbedding"] == nodes


def test_angles_that_are_the_same_at_every_run():
    class Fixed(Turns):
        def forward(self, q, k):
            return super().forward(q, k, torch.arange(20.0).view(1, 5, 4))

    args = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
    for tables, nodes in ((alike, 2), (unlike, 0)):
        _, count = exported(Fixed(tables), args, {"transformers.*": "hx-ort"})
        assert count["com.microsoft::RotaryEmbedding"] == nodes
