"""Whole detectors with small backbones: other images, other sizes, nothing found at all."""

from collections import OrderedDict

import onnx_ir
import pytest
import torch
import torchvision
from torch import nn
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator

import hx
from hx import Registry
from hx.testing import Session

SIZES = {"images_0": {1: "height", 2: "width"}}


class Backbone(nn.Module):
    """Two sizes of features, in which nothing comes of an image without anything in it."""

    out_channels = 8

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 7, 4, 3, bias=False)
        self.second = nn.Conv2d(8, 8, 3, 2, 1, bias=False)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return OrderedDict([("0", x), ("1", torch.relu(self.second(x)))])


def anchors():
    return AnchorGenerator(((12,), (24,)), ((0.5, 1.0, 2.0),) * 2)


def regions(size):
    return torchvision.ops.MultiScaleRoIAlign(["0", "1"], size, 2)


def faster_rcnn():
    return detection.FasterRCNN(
        Backbone(), min_size=64, max_size=96, rpn_anchor_generator=anchors(), box_score_thresh=0.4,
        rpn_post_nms_top_n_test=40, num_classes=3, box_roi_pool=regions(3),
    )  # fmt: skip


def mask_rcnn():
    return detection.MaskRCNN(
        Backbone(), min_size=64, max_size=96, rpn_anchor_generator=anchors(), box_score_thresh=0.4,
        rpn_post_nms_top_n_test=40, box_roi_pool=regions(3),
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(1024, 3),
        mask_roi_pool=regions(4), mask_head=detection.mask_rcnn.MaskRCNNHeads(8, (8,), 1),
        mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(8, 8, 3),
    )  # fmt: skip


def keypoint_rcnn():
    return detection.KeypointRCNN(
        Backbone(), min_size=64, max_size=96, rpn_anchor_generator=anchors(), box_score_thresh=0.4,
        rpn_post_nms_top_n_test=40, box_roi_pool=regions(3),
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(1024, 2),
        keypoint_roi_pool=regions(4),
        keypoint_head=detection.keypoint_rcnn.KeypointRCNNHeads(8, (8,)),
        keypoint_predictor=detection.keypoint_rcnn.KeypointRCNNPredictor(8, 5),
    )  # fmt: skip


def lively(model):
    """Answers that differ by place, and say that there is nothing where features are nothing."""
    with torch.no_grad():
        model.backbone.first.weight.normal_(0, 0.15)
        for name, part in model.named_modules():
            if isinstance(part, (nn.Conv2d, nn.Linear)) and "backbone" not in name:
                usual = 10 if part.weight.std() < 0.05 else 1.2
                part.weight.mul_(1.5 if name.endswith("cls_score") else usual)
        for name, parameter in model.named_parameters():
            if "box_head" in name and name.endswith("bias"):
                parameter.zero_()
            elif name.endswith("cls_score.bias"):
                parameter.copy_(torch.tensor([2.0, *[0.0] * (len(parameter) - 1)]))
    return model.eval()


def image(seed, height, width):
    torch.manual_seed(seed)
    coarse = torch.rand(1, 3, 5, 6)
    return torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]


def nothing(height, width):
    """The mean of all images, of which nothing is left when it is normalized."""
    return torch.tensor([0.485, 0.456, 0.406])[:, None, None].expand(3, height, width).clone()


@pytest.mark.parametrize("make", [faster_rcnn, mask_rcnn, keypoint_rcnn])
def test_other_images_other_sizes_and_none_found(make):
    torch.manual_seed(0)
    model = lively(make())
    model([image(0, 50, 70)])  # the first image settles at which scales regions are pooled
    program = hx.export(model, ([image(0, 50, 70)],), dynamic=SIZES, packs=Registry.installed())
    session = Session(onnx_ir.to_proto(program.model).SerializeToString())
    counts = set()
    for given in (image(0, 50, 70), image(1, 60, 60), image(2, 90, 40), nothing(50, 70)):
        with torch.no_grad():
            [expected] = model([given])
        found = session.run({"images_0": given})
        counts.add(len(expected["scores"]))
        for mine, real in zip(found, expected.values()):
            torch.testing.assert_close(mine, real, rtol=1e-3, atol=1e-3)
    assert len(found) == len(expected) and 0 in counts and len(counts) > 1, counts
