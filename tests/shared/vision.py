"""torchvision, also beside a PyTorch without CUDA.

The registry's build expects the operators of a CUDA build: where those are not, their schemas alone
let it import.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

import torch


@functools.cache
def torchvision() -> ModuleType:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in ("nms", "qnms"):
            _library().define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision")


@functools.cache
def _library() -> torch.library.Library:  # its definitions go when it goes
    return torch.library.Library("torchvision", "FRAGMENT")
