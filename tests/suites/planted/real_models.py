"""Models of libraries with random weights."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from .drawn_inputs import Input, Size, floats, ids, padding
from .subject import MODELS, Planted

PICTURES = {
    "torchvision": ("squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v3_small"),
    "timm": (
        "test_vit",
        "test_resnet",
        "test_efficientnet",
        "test_convnext",
        "test_byobnet",
        "test_nfnet",
        "test_maxvit",
    ),
}
TEXTS = ("bert:base", "distilbert:base", "gpt2:causal", "llama:causal", "t5:seq2seq", "mamba:causal",
         "deberta:base", "roberta:base", "swin:base")  # fmt: skip


def _sample(library: str, name: str) -> Any:
    from ..zoo import settled

    torch.manual_seed(0)
    return settled(importlib.import_module(f"tests.suites.zoo.{library}_zoo").build(name))


def found(library: str, name: str) -> Planted:
    """Return a model of a library; its inputs are drawn like those of the zoo."""
    sample = _sample(library, name)
    given = dict(zip(sample.dynamic, sample.args)) if sample.args else dict(sample.kwargs)
    inputs: dict[str, Input] = {}
    sizes: dict[str, Size] = {}
    for key, value in given.items():
        if not isinstance(value, torch.Tensor):
            continue
        axes = sample.dynamic.get(key, {})
        dims = tuple(axes.get(axis, n) for axis, n in enumerate(value.shape))
        for axis, word in axes.items():
            # A picture takes long: 260 of them are one more than the second bound of lost rows.
            sizes[word] = Size(value.shape[axis], high=260 if value.dim() == 4 else 2000)
        if value.is_floating_point():
            inputs[key] = floats(*dims)
        elif "mask" in key:
            inputs[key] = padding(*dims, dtype=value.dtype)
        else:
            inputs[key] = ids(*dims, high=max(3, int(value.max()) + 1))
    fixed = {k: v for k, v in sample.kwargs.items() if k not in inputs}
    by_name = None if sample.args else fixed
    packs = ("hx-torchvision",) if library == "torchvision" else ()
    return Planted(lambda: sample.model, inputs, sizes, packs, True, by_name)


REAL: dict[str, Any] = {}
for _library, _names in (*PICTURES.items(), ("transformers", TEXTS)):
    for _name in _names:
        REAL[f"{_library}/{_name}"] = functools.partial(found, _library, _name)


def names() -> list[str]:
    """Every model of the suite: the small ones, then those of libraries."""
    from . import (  # noqa: F401 which list models
        index_models,
        number_models,
        signal_models,
        text_models,
        vision_models,
    )

    return [*MODELS, *REAL]


def model(name: str) -> Planted:
    names()
    return MODELS[name] if name in MODELS else REAL[name]()
