"""timm: one or two of each family of architectures, the smallest that its authors named."""

from __future__ import annotations

import re
from typing import Any

import torch

from . import BATCH, Sample, Unbuildable, runs, torchvision_zoo, uneven

SMALL = ("test_", "atto", "femto", "pico", "nano", "xxs", "xx_small", "xxtiny", "zepto", "xs",
         "xtiny", "x_small", "_ti_", "_ti16", "tiny", "_t0", "_m0", "_s0", "_b0", "_050", "mini",
         "small", "_s_", "_s16", "_s1", "_m1", "_s")  # fmt: skip
LARGE = ("giant", "gigantic", "huge", "enormous", "_1b_", "_3b_", "large", "xlarge", "_so400m",
         "so150m", "_7b", "384", "448", "512", "560", "2b_", "_m36", "_m48")  # fmt: skip
PER_FAMILY = {"vision_transformer": 10, "efficientnet": 9, "resnet": 7, "maxxvit": 7, "byobnet": 8,
              "eva": 5, "convnext": 3, "mobilenetv3": 4, "nfnet": 3, "naflexvit": 2, "regnet": 3,
              "byoanet": 6, "swin_transformer_v2_cr": 1, "mlp_mixer": 4, "metaformer": 3,
              "resnetv2": 3, "cspnet": 4, "levit": 2, "vision_transformer_relpos": 3,
              "vision_transformer_hybrid": 2, "ghostnet": 3, "dla": 2, "twins": 2, "coat": 2,
              "crossvit": 1, "hgnet": 2, "hiera": 2, "xcit": 1, "vitamin": 2, "efficientvim": 1,
              "swin_transformer": 2, "mobilevit": 2, "pit": 2}  # fmt: skip


def names() -> list[str]:
    torchvision_zoo.loaded()
    import timm

    out: list[str] = []
    for family in timm.list_modules():
        found = sorted(timm.list_models(module=family), key=_order)
        out += _unlike(found, PER_FAMILY.get(family, 1))
    return out


def _order(name: str) -> tuple[bool, int, int, int, str]:
    large = any(word in name for word in LARGE)
    rank = next((i for i, word in enumerate(SMALL) if word in name), len(SMALL))
    number = re.search(r"\d+", name)
    depth = int(number[0]) if number else 0
    return large, rank if rank else len(SMALL), depth, len(name), name


def _unlike(found: list[str], count: int) -> list[str]:
    """`count` names that differ in their words, and not only in their size."""
    taken: list[str] = []
    kinds: set[str] = set()
    for name in found:
        kind = re.sub(r"\d+", "", name.split("_")[0])
        if kind not in kinds and len(taken) < count:
            kinds.add(kind)
            taken.append(name)
    seen = {word for name in taken for word in _words(name)}
    for name in found:
        if len(taken) >= count:
            break
        if name not in taken and _words(name) - seen:
            seen |= _words(name)
            taken.append(name)
    return taken


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name))


def build(name: str) -> Sample:
    torchvision_zoo.loaded()
    import timm

    why = ""
    for kwargs, size in _trials(timm.get_pretrained_cfg(name)):
        try:
            model = timm.create_model(name, **kwargs)
        except Exception as error:
            why = str(error)
            continue
        image = torch.randn(2, 3, *size)
        why = runs(model.eval(), image)
        if not why:
            return Sample(uneven(model), (image,), dynamic={_first(model): BATCH})
    raise Unbuildable(why)


def _trials(config: Any) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    """Small images first; an architecture that is made for one size takes that one."""
    own = tuple(config.input_size[1:]) if config else (224, 224)
    small = [(s, s) for s in (64, 96, 128) if s <= own[0]]
    sized = [({"img_size": s}, s) for s in [*small, (256, 256)]]
    if config and config.fixed_input_size:
        return [*sized, ({}, own)]
    return [*(({}, s) for s in small), ({}, own)]


def _first(model: torch.nn.Module) -> str:
    import inspect

    return next(iter(inspect.signature(model.forward).parameters))
