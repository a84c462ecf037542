"""Images that are resized between two turns of their axes, as libraries with channels last do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import hx


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("how", [{"size": (24, 20)}, {"scale_factor": 2}], ids=["size", "factor"])
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n", 1: "h"}}], ids=["fixed", "free"])
def test_channels_may_come_last(mode, how, opset, dynamic):
    def resized(x):
        turned = torch.relu(x.permute(0, 3, 1, 2))
        return F.interpolate(turned, mode=mode, **how).permute(0, 2, 3, 1)

    program = hx.export(resized, torch.rand(2, 12, 10, 3), dynamic=dynamic, opset=opset)
    assert program.proof.ok
    x = torch.rand(*((3, 9, 10, 3) if dynamic else (2, 12, 10, 3)))
    torch.testing.assert_close(program.run(x), resized(x), rtol=1e-4, atol=1e-5)


def test_channels_that_come_first_need_nothing_more():
    program = hx.export(lambda x: F.interpolate(x, scale_factor=2), torch.rand(2, 3, 8, 8))
    assert [node.op_type for node in program.model.graph] == ["Resize"]
