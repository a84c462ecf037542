"""Real models from real libraries, with random weights and statistics that are not the defaults."""

from __future__ import annotations

import importlib

import pytest
import torch


@pytest.fixture(scope="session")
def torchvision():
    """torchvision from the registry expects CUDA's operators: their schemas alone let it import."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    module = importlib.import_module("torchvision")
    yield module
    del library


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def uneven():
    """BatchNorm statistics and affine parameters that show when they are left out or mixed up."""

    def shake(model):
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.5, 1.5)
                with torch.no_grad():
                    module.weight.uniform_(0.5, 1.5)
                    module.bias.normal_(0, 0.2)
        return model

    return shake
