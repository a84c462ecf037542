"""Model sources for installed libraries: torchvision, timm, transformers.

Weights are not downloaded: a graph depends on shapes only, and `--weights` names a checkpoint.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from hx.contributions import ModelSource, without_weights
from hx.errors import UsageError


def _library(name: str, scheme: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        package = name.partition(".")[0]
        if problem.name not in (package, name):
            raise
        raise UsageError(
            f"{scheme}: models come from {package}, which is not installed",
            hint=f"pip install {package}",
        ) from None


def torchvision(name: str) -> Any:
    import torch

    models = _library("torchvision.models", "torchvision")
    _known(name, models.list_models(), "torchvision")
    size = 299 if name == "inception_v3" else 224
    kwargs = {"weights_backbone": None} if "/" not in name and _has_backbone(name) else {}
    model = models.get_model(name, weights=None, **kwargs)
    if name in models.list_models(models.detection):
        return model, ([torch.rand(3, 320, 320)],)
    if name in models.list_models(models.video):
        return model, (torch.rand(1, 3, 16, 224, 224),)
    if name in models.list_models(models.optical_flow):
        return model, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128))
    return model, (torch.rand(1, 3, size, size),)


def _has_backbone(name: str) -> bool:
    models = importlib.import_module("torchvision.models")
    return name in (*models.list_models(models.detection), *models.list_models(models.segmentation))


def timm(name: str) -> Any:
    import torch

    library = _library("timm", "timm")
    _known(name.split(".")[0], library.list_models(), "timm")
    model = library.create_model(name, pretrained=False)
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", {})
    return model, (torch.rand(1, *config.get("input_size", (3, 224, 224))),)


def hugging_face(name: str) -> Any:
    """Find a model in a folder with a config.json or in the hub's cache. Nothing is downloaded."""
    import torch

    library = _library("transformers", "hf")
    try:
        config = library.AutoConfig.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError) as problem:
        raise UsageError(
            f"hf:{name} has no model configuration that transformers can read",
            why=str(problem).strip().splitlines()[0],
            hint="give a folder with a config.json, or a model that is in the hub's cache: "
            f"hf download {name}",
        ) from None
    architecture = getattr(library, (config.architectures or ["AutoModel"])[0], library.AutoModel)
    build = getattr(architecture, "_from_config", None) or architecture.from_config
    model = None
    if not without_weights.get():
        with contextlib.suppress(
            OSError
        ):  # no weights there: the graph is the same with random ones
            model = architecture.from_pretrained(name, local_files_only=True)
    model = build(config) if model is None else model
    if "pixel_values" in (model.main_input_name,):
        size = getattr(config, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else size
        channels = getattr(config, "num_channels", 3)
        return model, {"pixel_values": torch.rand(1, channels, height, width)}
    text = config.get_text_config()
    ids = torch.arange(8).unsqueeze(0) % max(int(getattr(text, "vocab_size", 8)), 1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids[:, :4]
    return model, inputs


def _known(name: str, names: Iterable[str], scheme: str) -> None:
    names = list(names)
    if name not in names:
        import difflib

        near = difflib.get_close_matches(name, names, 3)
        raise UsageError(
            f"{scheme} has no model {name!r}",
            hint=f"did you mean {' or '.join(near)}?" if near else f"it has {len(names)} models",
        )


_REGISTERED = re.compile(r'^@register_model(?:\((?:name="([^"]+)")?\))?(?:\n.*)*?\ndef (\w+)', re.M)


def _names(library: str) -> list[str]:
    """List the models that a library registers, without an import: a shell completes them."""
    found = importlib.util.find_spec(library)
    folders = found.submodule_search_locations if found is not None else None
    files = [file for folder in folders or () for file in Path(folder, "models").rglob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return sorted(name or called for text in texts for name, called in _REGISTERED.findall(text))


SOURCES = (
    ModelSource(
        "torchvision",
        torchvision,
        "models of torchvision: torchvision:resnet50",
        partial(_names, "torchvision"),
    ),
    ModelSource("timm", timm, "models of timm: timm:vit_tiny_patch16_224", partial(_names, "timm")),
    ModelSource("hf", hugging_face, "folders that transformers reads: hf:path/to/folder"),
)
