"""Real models from real libraries, with random weights and statistics that are not the defaults."""

from __future__ import annotations

import pytest
import torch
import vision


@pytest.fixture(scope="session")
def torchvision():
    return vision.torchvision()


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
