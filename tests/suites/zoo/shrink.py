"""Configurations of transformers with tiny numbers in place of the published ones."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

# What configurations call their sizes. Those that a class does not have are not passed.
TINY: dict[str, Any] = dict(  # noqa: C408 as they are spelled there
    vocab_size=99, hidden_size=32, d_model=32, n_embd=32, embed_dim=32, dim=32, emb_dim=32,
    intermediate_size=64, ffn_dim=64, d_ff=64, d_inner=64, encoder_ffn_dim=64, decoder_ffn_dim=64,
    n_inner=64, hidden_dim=64, ffn_hidden_size=64, inner_dim=64,
    num_hidden_layers=2, n_layer=2, n_layers=2, num_layers=2, encoder_layers=2, decoder_layers=2,
    num_decoder_layers=2, num_encoder_layers=2, encoder_num_hidden_layers=2,
    num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4,
    decoder_attention_heads=4, num_key_value_heads=2, encoder_num_attention_heads=4,
    decoder_num_attention_heads=4, attention_heads=4,
    head_dim=8, d_kv=8, kv_channels=8, attention_head_size=8,
    max_position_embeddings=64, n_positions=64, n_ctx=64, max_source_positions=64,
    max_target_positions=64, max_seq_len=64, seq_length=64,
    embedding_size=32, projection_dim=32, word_embed_proj_dim=32, bottleneck_size=16,
    image_size=32, patch_size=8, num_channels=3, num_mel_bins=16,
    num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2,
    moe_intermediate_size=32, shared_expert_intermediate_size=32, moe_num_experts=4,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    vocab_size_per_layer_input=99, type_vocab_size=2, sliding_window=4, depth=2,
    dropout=0.0, n_shared_experts=1, first_k_dense_replace=1,
    q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
    rotary_dim=4, state_size=8, time_step_rank=4,
    num_queries=5, max_2d_position_embeddings=64, n_group=2, topk_group=1,
)  # fmt: skip


def shrunk(cls: type, **given: Any) -> Any:
    """A configuration of a class with tiny numbers; `given` goes over them, dicts into parts."""
    return cls(**arguments(cls, given))


def arguments(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    known = fields(cls)
    # A field that is a list by default has a size for each stage: those stay.
    out = {k: v for k, v in TINY.items() if k in known and not isinstance(known[k], (list, tuple))}
    if "kv_lora_rank" in out:  # one latent for all heads
        out.update((k, out["num_attention_heads"]) for k in ("num_key_value_heads",) if k in out)
    for key, part in parts(cls).items():
        inner = given.get(key)
        if inner is not None and not isinstance(inner, dict):
            continue
        inner = dict(inner or {})
        kind = inner.get("model_type") or getattr(part, "model_type", "")
        out[key] = {**arguments(part, inner), **({"model_type": kind} if kind else {})}
    for key, value in given.items():
        if key in out and isinstance(out[key], dict) and isinstance(value, dict):
            continue
        out[key] = value
    return {k: v for k, v in out.items() if v is not OMIT}


OMIT = object()  # as a value in `given`: leave the class's own


def parts(cls: type) -> dict[str, type]:
    """The configurations inside a configuration, by the name of their field."""
    from transformers import CONFIG_MAPPING

    found: dict[str, type] = {}
    for key, what in (getattr(cls, "sub_configs_defaults", None) or {}).items():
        if isinstance(what, type):
            found[key] = what
            continue
        kind = getattr(what, "model_type", None)
        if kind in CONFIG_MAPPING:
            found[key] = CONFIG_MAPPING[kind]
        elif isinstance(getattr(what, "config_class", None), type):
            found[key] = what.config_class
    return found


def fields(cls: type) -> dict[str, Any]:
    """What a class takes, with the defaults."""
    out = {k: p.default for k, p in inspect.signature(cls.__init__).parameters.items()}
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            made = field.default_factory
            out[field.name] = field.default if made is dataclasses.MISSING else made()
    return {k: v for k, v in out.items() if k not in ("self", "kwargs")}
