"""Real architectures with random weights, built from configurations alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

BATCH = {0: "batch"}


@dataclass
class Sample:
    """A model, what it is called with, and which axes of that may change."""

    model: torch.nn.Module
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)
    settled: bool = False


class Unbuildable(Exception):
    """The library itself cannot build or run it here."""


def of_any_size(sample: Sample) -> Sample:
    """The same where pictures may have any height and width that the model takes."""
    import inspect

    if sample.dynamic and all(axes == BATCH for axes in sample.dynamic.values()):
        given = (
            inspect.signature(sample.model.forward).bind(*sample.args, **sample.kwargs).arguments
        )
        for name, axes in sample.dynamic.items():
            picture = given.get(name)
            if isinstance(picture, torch.Tensor) and picture.dim() >= 4:
                sample.dynamic[name] = {
                    **axes,
                    picture.dim() - 2: "height",
                    picture.dim() - 1: "width",
                }
    return sample


def settled(sample: Sample, least: float = 0.1) -> Sample:
    """Statistics of BatchNorm as training leaves them: near those of what comes in.

    Made-up ones let the activations of a deep network grow until it magnifies every rounding.
    `least` is added to each variance: with much of it, a deep network forgets its input.
    """
    if sample.settled:
        return sample
    sample.settled = True
    layers = [
        m for m in sample.model.modules()
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.running_mean is not None
    ]  # fmt: skip
    before = [(m.momentum, m.running_mean.clone(), m.running_var.clone()) for m in layers]
    for layer in layers:
        layer.momentum = 1.0
        layer.train()
    failed = bool(layers) and runs(sample.model, *sample.args, **sample.kwargs)
    with torch.no_grad():
        for layer, (momentum, mean, var) in zip(layers, before):
            layer.momentum = momentum
            if failed:
                layer.running_mean.copy_(mean)
                layer.running_var.copy_(var)
            else:
                layer.running_var.mul_(torch.rand_like(var) * 0.4 + 0.8).add_(least)
    sample.model.eval()
    return sample


def uneven(model: torch.nn.Module) -> torch.nn.Module:
    """Statistics and parameters that show when they are left out, mixed up or exchanged.

    Fresh models are full of zeros and ones: of scales that hide a branch, biases that do nothing.
    """
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                if module.affine:  # below 1, as in trained networks: else the depth blows up
                    module.weight.uniform_(0.2, 0.6)
                if module.running_mean is not None:
                    module.running_mean.normal_(0, 0.2)
                    module.running_var.uniform_(0.6, 1.4)
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() and parameter.dim() <= 4:
                first = parameter.reshape(-1)[0]
                if bool((parameter == first).all()):
                    scale = max(abs(float(first)), 0.1)
                    noise = torch.rand_like(parameter) - 0.5
                    parameter.copy_(float(first) + 0.6 * scale * noise)
    return model.eval()


def runs(model: torch.nn.Module, *args: Any, **kwargs: Any) -> str:
    """Why PyTorch cannot run it; nothing if it can."""
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    except Exception as error:
        return " ".join(str(error).split())[:200] or type(error).__name__
    return ""
