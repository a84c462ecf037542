"""Pooling of regions: a grid of the same size from every box of an image."""

from hx import case, converter
from hx.lazy import torch


def some_regions(n=6, images=2, size=16.0):
    """Regions as torchvision writes them: which image, and two corners."""
    rng = torch.Generator().manual_seed(n)
    corners = torch.rand(n, 2, generator=rng) * size
    sides = torch.rand(n, 2, generator=rng) * size
    return torch.cat([torch.arange(n)[:, None] % images, corners, corners + sides], 1)


def images_and_boxes(op, rois):
    """Regions as ONNX writes them: which images, and apart from those the corners."""
    which = op.cast(op.Gather(rois, 0, axis=1), torch.int64)
    return which, op.Slice(rois, [1], [5], [1])


def as_regions(op, boxes):
    """A list with the boxes of each image, or regions as they are."""
    if not isinstance(boxes, (list, tuple)):
        return boxes
    each = []
    for i, b in enumerate(boxes):
        which = op.Expand(op.constant(float(i), b.dtype), op.sizes([b.shape[0], 1]))
        each.append(op.Concat(which, b, axis=1))
    return op.Concat(*each, axis=0)


def pair(x):
    return (x, x) if isinstance(x, int) else tuple(x)


# From opset 22 on, onnxruntime's CPU has no kernels for RoiAlign and MaxRoiPool.
OPSETS = (13, 16, 21)
ALIGN = [
    case("float32[2,3,9,11]", lambda: some_regions(), 0.5, 3, 2, ratio, aligned,
         opsets=OPSETS[aligned:])
    for ratio in (-1, 2) for aligned in (False, True)
]  # fmt: skip


@converter("torchvision::roi_align", cases=ALIGN)
def roi_align_operator(
    op, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned
):
    which, boxes = images_and_boxes(op, rois)
    # Before opset 16 the operator has no such attribute, and means what is not aligned.
    aligning = {"coordinate_transformation_mode": "half_pixel" if aligned else "output_half_pixel"}
    return op.RoiAlign(
        input, boxes, which, output_height=pooled_height, output_width=pooled_width,
        sampling_ratio=max(sampling_ratio, 0), spatial_scale=spatial_scale, mode="avg",
        **(aligning if aligned or op.opset >= 16 else {}),
    )  # fmt: skip


@converter("torchvision.ops.roi_align", cases=[
    case("float32[2,3,9,11]", ["float32[3,4]<9", "float32[2,4]<9"], 3, name="boxes by image",
         opsets=OPSETS),
    case("float32[2,3,h,w]", lambda: some_regions(), (3, 2), 0.5, name="regions",
         opsets=OPSETS),
    case("float32[2,3,9,11]", lambda: some_regions(0), (3, 2), name="none", opsets=OPSETS),
])  # fmt: skip
def roi_align(op, input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    return roi_align_operator(
        op, input, as_regions(op, boxes), spatial_scale, *pair(output_size), sampling_ratio, aligned
    )


@converter("torchvision.ops.roi_pool", cases=[
    case("float32[2,3,9,11]", lambda: some_regions(), (3, 2), 0.5, opsets=OPSETS),
    case("float32[2,3,h,w]", lambda: [some_regions()[:4, 1:], some_regions()[4:, 1:]], 2,
         opsets=OPSETS),
    case("float32[2,3,9,11]", lambda: some_regions(0), 2, name="none", opsets=OPSETS),
])  # fmt: skip
def roi_pool(op, input, boxes, output_size, spatial_scale=1.0):
    """Its operator also says which pixels were the largest, and ONNX's does not."""
    return op.MaxRoiPool(input, as_regions(op, boxes),
                         pooled_shape=pair(output_size), spatial_scale=spatial_scale)  # fmt: skip


def own_channels(op, pooled, pooled_height, pooled_width):
    """Of [K, C * PH * PW, PH, PW], for each bin the channels that are there for it."""
    bins = pooled_height * pooled_width
    k, channels = pooled.shape[0], pooled.shape[1] // bins
    flat = op.Reshape(pooled, op.sizes([k, channels, bins * bins]))
    diagonal = op.Gather(flat, [i * (bins + 1) for i in range(bins)], axis=2)
    return op.Reshape(diagonal, op.sizes([k, channels, pooled_height, pooled_width]))


def mapping(op, input, rois, pooled_height, pooled_width):
    """Which channel of the input each number comes from."""
    bins = pooled_height * pooled_width
    shape = (1, input.shape[1] // bins, pooled_height, pooled_width)
    channels = torch.arange(input.shape[1] // bins * bins, dtype=torch.int32).reshape(shape)
    return op.Expand(op.constant(channels), op.sizes([rois.shape[0], 1, 1, 1]))


@converter("torchvision::ps_roi_align", cases=[
    case("float32[2,12,9,11]", lambda: some_regions(), 0.5, 3, 2, ratio, opsets=OPSETS[1:])
    for ratio in (-1, 2)
])  # fmt: skip
def ps_roi_align(op, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """Every bin of every channel, of which those are kept that belong together."""
    pooled = roi_align_operator(
        op, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned=True
    )
    return (
        own_channels(op, pooled, pooled_height, pooled_width),
        mapping(op, input, rois, pooled_height, pooled_width),
    )


@converter("torchvision::ps_roi_pool", cases=[
    case("float32[2,12,9,11]", lambda: some_regions(), 0.5, 3, 2),
    case("float32[2,12,h,w]", lambda: some_regions(), 0.5, 3, 2),
])  # fmt: skip
def ps_roi_pool(op, input, rois, spatial_scale, pooled_height, pooled_width):
    """Means over whole pixels: each bin is a row of shares of the rows, and one of the columns."""
    which, boxes = images_and_boxes(op, rois)
    left, top, right, bottom = op.Split(
        op.cast(rounded(op, op.Mul(boxes, spatial_scale)), torch.int64),
        axis=1,
        num_outputs=4,
        outputs=4,
    )
    rows = shares(op, top, bottom, pooled_height, input.shape[2], input.dtype)
    columns = shares(op, left, right, pooled_width, input.shape[3], input.dtype)
    k, channels = rois.shape[0], input.shape[1] // (pooled_height * pooled_width)
    maps = op.Reshape(
        op.Gather(input, which),
        op.sizes([k, channels, pooled_height, pooled_width, *input.shape[2:]]),
    )
    # [K, 1, PH, 1, 1, H] x [K, C, PH, PW, H, W] x [K, 1, 1, PW, W, 1]
    pooled = op.MatMul(
        op.MatMul(op.Unsqueeze(rows, [1, 3, 4]), maps), op.Unsqueeze(columns, [1, 2, 5])
    )
    return op.Squeeze(pooled, [4, 5]), mapping(op, input, rois, pooled_height, pooled_width)


def rounded(op, x):
    """To the nearest whole number, halves away from zero."""
    return op.Mul(op.Sign(x), op.Floor(op.Add(op.Abs(x), 0.5)))


def shares(op, first, last, bins, size, dtype):
    """[K, bins, size]: of each bin between two borders, 1 / n where its n pixels are."""
    length = op.cast(op.Max(op.Sub(last, first), 1), dtype)
    step = op.Div(length, float(bins))
    starts, ends = ([[float(i + more) for i in range(bins)]] for more in (0, 1))

    def border(place):
        return op.Clip(op.Add(op.cast(place, torch.int64), first), 0, op.constant(size - 1))

    start = op.Unsqueeze(border(op.Floor(op.Mul(step, op.constant(starts, dtype)))), [2])
    end = op.Unsqueeze(border(op.Ceil(op.Mul(step, op.constant(ends, dtype)))), [2])
    pixels = op.Range(0, op.constant(size), 1)
    inside = op.And(op.GreaterOrEqual(pixels, start), op.Less(pixels, end))
    count = op.cast(op.Max(op.Sub(end, start), 1), dtype)
    return op.Div(op.cast(inside, dtype), count)
