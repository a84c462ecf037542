"""torchvision: classification, segmentation, video, optical flow, detection."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import torch

from ..attempt import EXAMPLES
from . import BATCH, Sample, Unbuildable, runs, settled, uneven

PARTS = ("", "segmentation", "video", "optical_flow", "detection")


PACKS = ("hx-torchvision",)


@functools.cache
def loaded() -> Any:
    """torchvision; where it lacks its compiled operators, with what the pack's tests put there."""
    file = EXAMPLES / "hx-torchvision" / "tests" / "kernels.py"
    spec = importlib.util.spec_from_file_location("torchvision_kernels", file)
    assert spec is not None and spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    return kernels.torchvision()


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
    if part == "detection" and not short.startswith("ssd"):
        kwargs.update(min_size=160, max_size=320)
    if "rcnn" in short:
        kwargs.update(rpn_post_nms_top_n_test=100, box_detections_per_img=30)
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
    decided(model, [_blobs(), torch.rand(3, 120, 160)])
    # Two boxes whose scores are as good as equal may come in either order.
    image = max((_blobs() for _ in range(6)), key=lambda each: _gap(model, each))
    dynamic = {"images_0": {1: "height", 2: "width"}}
    return Sample(model, ([image],), dynamic=dynamic, settled=True)


def _blobs() -> torch.Tensor:
    """What is large in an image is what deep layers see of it; the proof draws each pixel alone."""
    coarse = torch.rand(1, 3, 5, 6)
    return torch.nn.functional.interpolate(coarse, (120, 160), mode="bilinear")[0]


def _gap(model: Any, image: torch.Tensor) -> float:
    """How far apart the scores of an image are, at least; nothing where little is found."""
    with torch.no_grad():
        scores = model([image])[0]["scores"].sort().values
    return float(scores.diff().min()) if len(scores) > 3 else 0.0


# Layers that say what was found and where: how far apart their answers are, and around what.
_HEADS = {
    "cls_logits": (1.0, -3.0), "cls_score": (1.0, 0.0), "classification_head.module_list": (1.0, 0.0),
    "bbox_reg": (0.4, 1.5), "bbox": (0.2, 0.0), "regression_head.module_list": (0.2, 0.0),
    "mask_fcn_logits": (1.0, 0.0), "kps_score_lowres": (1.0, 0.0),
}  # fmt: skip


def decided(model: Any, images: list[torch.Tensor], wanted: int = 12) -> None:
    """Answers that are apart from one another, and at most about as many detections as are wanted.

    Of a fresh model all scores are nearly equal: which come first would be up to rounding, and
    all of them would be detections, or none.
    """
    settled(Sample(model, (images,)), least=1e-2)
    heads = {
        m: next(how for part, how in _HEADS.items() if part in path)
        for path, m in model.named_modules()
        if isinstance(m, (torch.nn.Conv2d, torch.nn.ConvTranspose2d, torch.nn.Linear))
        and m.bias is not None and any(part in path for part in _HEADS)
    }  # fmt: skip
    answers: dict[Any, list[torch.Tensor]] = {}
    for module in heads:  # one head may answer for several sizes of features
        module.register_forward_hook(
            lambda m, _, result: answers.setdefault(m, []).append(result.transpose(0, 1).flatten(1))
        )
    holder = getattr(model, "roi_heads", model)
    with torch.no_grad():
        for _ in range(2):  # what the second stage sees depends on the first
            model(images)
            for module, (wide, middle) in heads.items():
                found = torch.cat(answers.pop(module), 1)
                if found.shape[1] < 2:
                    continue  # nothing was detected yet
                factor = wide / found.std(1).clamp(min=1e-3)
                out = 1 if isinstance(module, torch.nn.ConvTranspose2d) else 0
                shape = [-1 if a == out else 1 for a in range(module.weight.dim())]
                module.weight *= factor.reshape(shape)
                module.bias.copy_((module.bias - found.mean(1)) * factor + middle)
        found = [each["scores"].sort(descending=True).values for each in model(images)]
    for module in heads:
        module._forward_hooks.clear()
    holder.score_thresh = max(
        float(scores[last : last + 2].mean())
        for scores in found
        for last in [min(wanted, len(scores) // 2)]
    )
