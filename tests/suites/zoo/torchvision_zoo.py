"""torchvision: classification, segmentation, video, optical flow, detection."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch

from . import BATCH, Sample, Unbuildable, runs, uneven

_library: list[Any] = []
PARTS = ("", "segmentation", "video", "optical_flow", "detection")


def loaded() -> Any:
    """torchvision; where it lacks its compiled operators, their schemas alone let it import."""
    if not _library:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            # A build that has them has defined them already.
            with contextlib.suppress(RuntimeError):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _library.append(library)
    return importlib.import_module("torchvision")


def names() -> list[str]:
    models = loaded().models
    out = []
    for part in PARTS:
        module = getattr(models, part) if part else models
        found = models.list_models(module=module)
        out += [f"{part}/{name}" if part else name for name in found if _small_enough(name)]
    return out


# Larger members of a family that has a smaller one with the same parts.
_LARGE = """vit_h_14 vit_l_16 vit_l_32 regnet_y_128gf regnet_y_32gf regnet_x_32gf regnet_y_16gf
regnet_x_16gf convnext_large efficientnet_b7 efficientnet_b6 efficientnet_v2_l resnext101_64x4d
wide_resnet101_2 swin3d_b swin_b swin_v2_b vgg19 vgg19_bn vgg16 vgg16_bn vgg13 convnext_base""".split()


def _small_enough(name: str) -> bool:
    return name not in _LARGE


def build(name: str) -> Sample:
    models = loaded().models
    part, _, short = name.rpartition("/")
    kwargs: dict[str, Any] = {"weights": None}
    if part in ("segmentation", "detection"):
        kwargs["weights_backbone"] = None
    if short in ("googlenet", "inception_v3"):
        kwargs["init_weights"] = False
    model = uneven(models.get_model(short, **kwargs))
    return {"video": _video, "optical_flow": _flow, "detection": _detection}.get(part, _images)(
        model, short
    )


def _images(model: torch.nn.Module, name: str) -> Sample:
    why = ""
    for size in (64, 96, 128, 224, 299):
        image = torch.randn(2, 3, size, size)
        why = runs(model, image)
        if not why:
            return Sample(model, (image,), dynamic={_first(model): BATCH})
    raise Unbuildable(why)


def _first(model: torch.nn.Module) -> str:
    import inspect

    return next(iter(inspect.signature(model.forward).parameters))


def _video(model: torch.nn.Module, name: str) -> Sample:
    why = ""
    for frames, size in ((8, 64), (16, 112), (16, 224)):
        clip = torch.randn(2, 3, frames, size, size)
        why = runs(model, clip)
        if not why:
            return Sample(model, (clip,), dynamic={_first(model): BATCH})
    raise Unbuildable(why)


def _flow(model: torch.nn.Module, name: str) -> Sample:
    pair = torch.rand(2, 3, 128, 128) * 2 - 1, torch.rand(2, 3, 128, 128) * 2 - 1
    return Sample(model, pair, {"num_flow_updates": 3}, {"image1": BATCH, "image2": BATCH})


def _detection(model: torch.nn.Module, name: str) -> Sample:
    return Sample(model, ([torch.rand(3, 120, 160)],))
