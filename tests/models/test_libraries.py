"""Models as their libraries build them: torchvision, timm, transformers."""

from __future__ import annotations

import pytest
import torch

import hx

transformers = pytest.importorskip("transformers")
BATCH = {0: "batch"}
TEXT = {0: "batch", 1: "sequence"}


@pytest.fixture
def ids():
    return torch.randint(0, 99, (2, 7))


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_resnet(torchvision, uneven, name):
    model = uneven(torchvision.models.get_model(name))
    program = hx.export(model, torch.randn(2, 3, 64, 64), dynamic={"x": BATCH})
    assert program.proof.ok
    weights = {n for n in program.model.graph.initializers if not n.startswith("const")}
    folded = {n for n in weights if n.endswith(".folded")}  # the normalizations are in these
    assert weights - folded <= set(model.state_dict()) and "fc.weight" in weights
    assert {n.removesuffix(".folded") for n in folded if ".weight" in n} <= set(model.state_dict())
    assert not any(node.op_type == "BatchNormalization" for node in program.model.graph)


def test_intermediate_layers_as_outputs(torchvision, uneven):
    model = uneven(torchvision.models.resnet18())
    program = hx.export(
        model, torch.randn(1, 3, 64, 64), dynamic={"x": BATCH}, outputs=["layer4", "avgpool"]
    )
    outputs = {v.name: [str(n) for n in v.shape] for v in program.model.graph.outputs}
    assert outputs == {"layer4": ["batch", "512", "2", "2"], "avgpool": ["batch", "512", "1", "1"]}
    assert "fc.weight" not in program.model.graph.initializers


def test_vision_transformer(torchvision):
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)
    program = hx.export(model, torch.randn(2, 3, 64, 64), dynamic={"x": BATCH})
    assert program.proof.ok


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_bert(ids, attention):
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, attn_implementation=attention,
    )  # fmt: skip
    mask = torch.ones_like(ids)
    program = hx.export(
        transformers.BertModel(config), (ids, mask),
        dynamic={"input_ids": TEXT, "attention_mask": TEXT},
    )  # fmt: skip
    assert [v.name for v in program.model.graph.outputs] == ["last_hidden_state", "pooler_output"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_gpt2(ids, attention):
    config = transformers.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, attn_implementation=attention,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    program = hx.export(
        transformers.GPT2LMHeadModel(config), (ids,), kwargs={"use_cache": False},
        dynamic={"input_ids": TEXT},
    )  # fmt: skip
    # The output layer is tied to the embedding: one weight in the file.
    assert "transformer.wte.weight" in program.model.graph.initializers
    assert "lm_head.weight" not in program.model.graph.initializers


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_llama(ids, attention):
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attn_implementation=attention,
    )  # fmt: skip
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    program = hx.export(
        transformers.LlamaForCausalLM(config), (ids,),
        kwargs={"attention_mask": mask, "use_cache": False},
        dynamic={"input_ids": TEXT, "attention_mask": TEXT},
    )  # fmt: skip
    assert program.proof.ok
