"""transformers: model types from tiny configurations, with both of the library's attentions.

A name is `type[:variant][:attention]`: `llama`, `llama:cache`, `t5:seq2seq`, `bert:eager`.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch

from . import BATCH, Sample, Unbuildable, runs, torchvision_zoo, uneven
from .shrink import fields, shrunk
from .transformers_types import TYPES, Type

TEXT = {0: "batch", 1: "sequence"}


def names() -> list[str]:
    out = []
    for kind, entry in TYPES.items():
        for variant in entry.variants:
            out.append(f"{kind}:{variant}")
            if entry.attention:
                out.append(f"{kind}:{variant}:eager")
    return out + unlisted()


def unlisted() -> list[str]:
    """Every other type that the library has, as it comes: many need more than tiny numbers."""
    torchvision_zoo.loaded()
    from transformers.models.auto import modeling_auto as auto

    out = []
    for kind in auto.MODEL_MAPPING_NAMES:
        if kind not in TYPES:
            causal = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
            out += [f"{kind}:{v}" for v in (("causal", "cache") if causal else ("base",))]
    return out


MOST = 60_000_000  # parameters of what is called tiny


def build(name: str) -> Sample:
    torchvision_zoo.loaded()  # transformers imports it where it is installed
    import transformers

    kind, variant, attention = (*name.split(":"), "")[:3]
    entry = TYPES.get(kind) or Type()
    try:
        # Beyond its window a cache forgets: its length is no size of its own any more.
        cls = transformers.CONFIG_MAPPING[kind]
        window = (
            {"sliding_window": 64} if "cache" in variant and "sliding_window" in fields(cls) else {}
        )
        config = shrunk(cls, **{**entry.config, **window})
        make = _class(transformers, variant, entry).from_config
        if kind not in TYPES:
            with torch.device("meta"):
                size = sum(p.numel() for p in make(copy.deepcopy(config)).parameters())
            if size > MOST:
                raise Unbuildable(f"{size} parameters: its sizes have names of their own")
        try:
            own = copy.deepcopy(config)  # a refusal leaves its mark on the configuration
            model = make(own, attn_implementation=attention or "sdpa")
        except ValueError as error:
            if attention or "scaled_dot_product" not in str(error):
                raise
            model = make(config, attn_implementation="eager")
    except Exception as error:
        raise Unbuildable(" ".join(str(error).split())[:300]) from error
    model = uneven(model.eval())
    try:
        sample = _sample(model, config, variant, entry)
    except Exception as error:
        raise Unbuildable(" ".join(str(error).split())[:300]) from error
    why = runs(model, *sample.args, **copy.deepcopy(sample.kwargs))
    if why:
        raise Unbuildable(why)
    return sample


def _class(transformers: Any, variant: str, entry: Type) -> Any:
    if entry.auto:
        return getattr(transformers, entry.auto)
    return {
        "causal": transformers.AutoModelForCausalLM,
        "cache": transformers.AutoModelForCausalLM,
        "seq2seq": transformers.AutoModelForSeq2SeqLM,
        "seq2seqcache": transformers.AutoModelForSeq2SeqLM,
        "masked": transformers.AutoModelForMaskedLM,
        "images": transformers.AutoModelForImageClassification,
    }.get(variant, transformers.AutoModel)


def _sample(model: Any, config: Any, variant: str, entry: Type) -> Sample:
    takes = inspect.signature(model.forward).parameters
    kwargs: dict[str, Any] = {}
    dynamic: dict[str, dict[int, str]] = {}
    for want in entry.inputs or (model.main_input_name,):
        tensor, axes = _input(want, config, entry)
        kwargs[want], dynamic[want] = tensor, axes
    if "input_ids" in kwargs and "attention_mask" in takes and entry.mask:
        kwargs["attention_mask"] = torch.ones_like(kwargs["input_ids"])
        dynamic["attention_mask"] = dict(dynamic["input_ids"])
    if config.is_encoder_decoder and "decoder_input_ids" in takes and entry.decoder:
        kwargs["decoder_input_ids"] = torch.randint(3, 90, (2, 5))
        dynamic["decoder_input_ids"] = {0: "batch", 1: "target"}
    if "use_cache" in takes:
        kwargs["use_cache"] = variant in ("cache", "seq2seqcache")
    if variant == "cache":
        _with_past(model, config, kwargs, dynamic)
    if variant == "seq2seqcache":
        _with_encoder_past(model, config, kwargs, dynamic)
    kwargs.update(entry.extra)
    if entry.loops:  # over the sequence, in Python: the graph has as many steps as the recording
        dynamic = {n: {a: w for a, w in x.items() if w == "batch"} for n, x in dynamic.items()}
    return Sample(model, (), kwargs, dynamic)


def _input(name: str, config: Any, entry: Type) -> tuple[torch.Tensor, dict[int, str]]:
    text = getattr(config, "text_config", None) or config
    if name in ("input_ids", "decoder_input_ids"):
        vocabulary = min(getattr(text, "vocab_size", 0) or 99, 90)
        return torch.randint(3, vocabulary, (2, entry.length)), dict(TEXT)
    if name == "pixel_values":
        return torch.randn(2, *entry.image), dict(BATCH)
    if name in ("input_values", "audio_values"):
        sizes = entry.samples if isinstance(entry.samples, tuple) else (entry.samples,)
        return torch.randn(2, *sizes), dict(BATCH)
    if name == "input_features":
        return torch.randn(2, *entry.features), dict(BATCH)
    if name == "bbox":
        corner = torch.randint(0, 30, (2, entry.length, 2))
        return torch.cat([corner, corner + torch.randint(1, 30, corner.shape)], -1), dict(TEXT)
    if name == "pixel_values_videos":
        return torch.randn(2, 4, *entry.image), dict(BATCH)
    raise Unbuildable(f"no example for {name}")


def _with_past(model: Any, config: Any, kwargs: dict, dynamic: dict) -> None:
    """One token more, after some that a cache remembers."""
    from hx.packs import nesting

    ids = kwargs["input_ids"]
    with torch.no_grad():
        past = model(input_ids=ids, use_cache=True).past_key_values
    kwargs["past_key_values"] = past
    kwargs["input_ids"] = ids[:, :1].clone()
    dynamic["input_ids"] = {0: "batch"}
    length = ids.shape[1]
    # A layer with a window counts in a Python number what it has seen: that is part of the call.
    counted = any(hasattr(layer, "cumulative_length") for layer in getattr(past, "layers", ()))
    if "attention_mask" in kwargs:
        kwargs["attention_mask"] = torch.ones(ids.shape[0], length + 1, dtype=torch.long)
        dynamic["attention_mask"] = {0: "batch"} if counted else {0: "batch", 1: "past + 1"}
    for name, leaf in nesting.leaves(past, "past_key_values"):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 1:
            dynamic[name] = {0: "batch"}
            if leaf.dim() == 4 and leaf.shape[2] == length and not counted:
                dynamic[name][2] = "past"


def _with_encoder_past(model: Any, config: Any, kwargs: dict, dynamic: dict) -> None:
    from hx.packs import nesting

    first = {k: v for k, v in kwargs.items() if k != "use_cache"}
    with torch.no_grad():
        result = model(**first, use_cache=True)
    target = kwargs["decoder_input_ids"].shape[1]
    source = kwargs["input_ids"].shape[1]
    from transformers.modeling_outputs import BaseModelOutput

    kwargs["encoder_outputs"] = BaseModelOutput(result.encoder_last_hidden_state)
    del kwargs["input_ids"], dynamic["input_ids"]
    dynamic["encoder_outputs_last_hidden_state"] = {0: "batch", 1: "sequence"}
    kwargs["decoder_input_ids"] = kwargs["decoder_input_ids"][:, :1].clone()
    dynamic["decoder_input_ids"] = {0: "batch"}
    kwargs["past_key_values"] = result.past_key_values
    for name, leaf in nesting.leaves(result.past_key_values, "past_key_values"):
        if isinstance(leaf, torch.Tensor) and leaf.dim() == 4:
            dynamic[name] = {0: "batch"}
            if leaf.shape[2] in (target, source):
                dynamic[name][2] = "past" if leaf.shape[2] == target else "sequence"
