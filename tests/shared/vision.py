"""torchvision from the registry expects CUDA's operators: their schemas alone let it import."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

import torch


@functools.cache
def torchvision() -> ModuleType:
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            _library().define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


@functools.cache
def _library() -> torch.library.Library:  # its definitions go when it goes
    return torch.library.Library("torchvision", "FRAGMENT")
