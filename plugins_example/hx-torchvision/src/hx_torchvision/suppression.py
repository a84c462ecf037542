"""Non-maximum suppression, of all boxes together and of each class by itself."""

import math

from hx import case, converter
from hx.lazy import torch

MANY = 2**31 - 1  # as many boxes of a class as there may be
# torchvision, on the CPU: more boxes than these go class by class, fewer are moved apart.
FEW = 1000


def some_boxes(n=40, seed=0):
    """Boxes of which some overlap, as the last two corners behind the first two."""
    rng = torch.Generator().manual_seed(seed)
    corners = torch.rand(n, 2, generator=rng) * 30
    return torch.cat([corners, corners + 1 + torch.rand(n, 2, generator=rng) * 20], 1)


def at_most(threshold):
    """The float32 that excludes the same numbers: torchvision compares with a double."""
    near = torch.tensor(threshold, dtype=torch.float32)
    down = torch.nextafter(near, torch.tensor(-math.inf))
    return float(near) if float(near) <= threshold else float(down)


def suppressed(op, boxes, scores, iou_threshold, *score_threshold):
    """Indices of the boxes that stay, class by class; `scores` has a row for each class."""
    chosen = op.NonMaxSuppression(
        op.Unsqueeze(op.cast(boxes, torch.float32), [0]),
        op.Unsqueeze(op.cast(scores, torch.float32), [0]),
        [MANY], [at_most(iou_threshold)], *score_threshold,
    )  # fmt: skip
    return op.Gather(chosen, 2, axis=1)


@converter("torchvision.ops.nms", "torchvision::nms", cases=[
    case(lambda: some_boxes(), "float32[40]", 0.3, expect=["NonMaxSuppression"]),
    case(lambda: some_boxes(0), "float32[0]", 0.5, name="none"),
])  # fmt: skip
def nms(op, boxes, scores, iou_threshold):
    return suppressed(op, boxes, op.Unsqueeze(scores, [0]), iou_threshold)


@converter("torchvision.ops.batched_nms", cases=[
    case(lambda: some_boxes(), "float32[40]", "int64[40]<3", 0.3, name="few"),
    case(lambda: some_boxes(1200), "float32[1200]", "int64[1200]<3", 0.5, name="many"),
])  # fmt: skip
def batched_nms(op, boxes, scores, idxs, iou_threshold):
    """As torchvision does it: classes are kept apart by moving them, or one after the other."""
    n = boxes.shape[0]
    if op.at_most(n, FEW):
        return nms(op, moved_apart(op, boxes, idxs), scores, iou_threshold)
    if not op.at_most(FEW + 1, n):
        few = op.LessOrEqual(op.constant(n), FEW)
        boxes = op.Where(few, moved_apart(op, boxes, idxs), boxes)
        idxs = op.Where(few, op.constant(0, idxs.dtype), idxs)
    classes = op.Unique(idxs)
    mine = op.Equal(op.Unsqueeze(classes, [1]), idxs)
    row_by_class = op.Where(mine, scores, op.constant(-math.inf, scores.dtype))
    kept = suppressed(op, boxes, row_by_class, iou_threshold, [-math.inf])
    # The best first, and of equal ones the first.
    kept, _ = op.TopK(kept, op.sizes(kept.shape), largest=0, outputs=2)
    _, order = op.TopK(op.Gather(scores, kept), op.sizes(kept.shape), outputs=2)
    return op.Gather(kept, order)


def moved_apart(op, boxes, idxs):
    """Boxes of different classes, moved so far that they cannot overlap."""
    highest = op.ReduceMax(op.Reshape(boxes, [-1]), keepdims=0)
    offsets = op.Mul(op.cast(idxs, boxes.dtype), op.Add(highest, 1))
    return op.Add(boxes, op.Unsqueeze(offsets, [1]))
