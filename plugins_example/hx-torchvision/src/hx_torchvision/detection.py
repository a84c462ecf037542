"""The steps of torchvision's detection models that go through what was found one by one."""

import math

from hx import case, converter
from hx.lazy import torch

from .suppression import some_boxes

RESIZE = "torchvision.models.detection.transform._resize_image_and_masks"
HEADS = "torchvision.models.detection.roi_heads"
TRANSFORM = "torchvision.models.detection.transform.GeneralizedRCNNTransform"
CODER = "torchvision.models.detection._utils.BoxCoder"


@converter(RESIZE, cases=[
    case("float32[3,20,h]", 12, 24, name="by its shorter side"),
    case("float32[3,h,30]", 0, 0, None, (15, 40), name="to one size"),
])  # fmt: skip
def resize(op, image, self_min_size, self_max_size, target=None, fixed_size=None):
    """Rows and columns times a matrix each, in which places are rounded as PyTorch does.

    Resize rounds them otherwise. That is little, but of thousands of boxes some are nearly equal.
    """
    if target is not None:
        return NotImplemented
    height, width = image.shape[1:]
    if fixed_size is not None:
        sizes = fixed_size[1], fixed_size[0]
    else:
        short, long = min(height, width), max(height, width)
        scale = min(self_min_size / short, self_max_size / long)
        sizes = math.trunc(height * scale), math.trunc(width * scale)
    exact = reckoned(image.dtype)
    rows = resizing(op, height, sizes[0], exact)
    columns = op.Transpose(resizing(op, width, sizes[1], exact), perm=[1, 0])
    resized = op.MatMul(op.MatMul(rows, op.cast(image, exact)), columns)
    return op.cast(resized, image.dtype), None


def reckoned(dtype):
    """PyTorch reckons with the places of halves in float32, and rounds once."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def resizing(op, size, wanted, dtype):
    """[wanted, size]: for each new pixel, its shares of the old ones."""
    step = op.Div(op.constant(size, dtype), op.constant(wanted, dtype))
    middles = op.Add(op.cast(op.Range(0, op.constant(wanted), 1), dtype), 0.5)
    return near(op, op.Sub(op.Mul(middles, step), 0.5), size)


def near(op, places, size):
    """[..., size]: shares of the two whole numbers below `size` that lie next to each place."""
    last = op.constant(size - 1, places.dtype)
    held = op.Unsqueeze(op.Min(op.Max(places, 0.0), last), [-1])
    whole = op.cast(op.Range(0, op.constant(size), 1), places.dtype)
    return op.Relu(op.Sub(1.0, op.Abs(op.Sub(held, whole))))


@converter(f"{TRANSFORM}.batch_images", cases=[
    case(["float32[3,h,33]", "float32[3,20,w]"], init=(16, 64, [0.0], [1.0])),
])  # fmt: skip
def batch_images(op, self, images, size_divisible=32):
    """Images of any size in one batch: zeros to the right and below, up to whole steps."""
    channels, height, width = images[0].shape
    for image in images[1:]:
        channels, height, width = map(max, (channels, height, width), image.shape)
    sizes = (channels, whole_steps(height, size_divisible), whole_steps(width, size_divisible))
    padded = []
    for image in images:
        more = [n - have for n, have in zip(sizes, image.shape)]
        padded.append(op.Unsqueeze(op.Pad(image, op.sizes([0, 0, 0, *more])), [0]))
    return op.Concat(*padded, axis=0)


def whole_steps(size, step):
    return (size + step - 1) // step * step


@converter(f"{CODER}.decode", cases=[
    case("float32[5,12]", ["float32[2,4]", "float32[3,4]"], init=[(10.0, 10.0, 5.0, 5.0)]),
    case("float32[n,8]", ["float32[n,4]"], init=[(1.0, 1.0, 1.0, 1.0)], name="any number"),
])  # fmt: skip
def decode(op, self, rel_codes, boxes):
    """Boxes moved and stretched as a head says. Python asks first whether there are any."""
    boxes = op.cast(op.Concat(*boxes, axis=0), rel_codes.dtype)
    if op.result.rank != 3:
        return NotImplemented  # recorded with none
    left, top, right, bottom = op.Split(op.Unsqueeze(boxes, [1]), axis=2, num_outputs=4, outputs=4)
    number, classes = boxes.shape[0], rel_codes.shape[1] // 4
    codes = op.Reshape(rel_codes, op.sizes([number, classes, 4]))
    codes = op.Div(codes, op.constant(list(self.weights), rel_codes.dtype))
    dx, dy, dw, dh = op.Split(codes, axis=2, num_outputs=4, outputs=4)

    def sides(low, high, move, stretch):
        size = op.Sub(high, low)
        middle = op.Add(op.Mul(move, size), op.Add(low, op.Mul(size, 0.5)))
        half = op.Mul(op.Mul(op.Exp(op.Min(stretch, self.bbox_xform_clip)), size), 0.5)
        return op.Sub(middle, half), op.Add(middle, half)

    left, right = sides(left, right, dx, dw)
    top, bottom = sides(top, bottom, dy, dh)
    return op.Concat(left, top, right, bottom, axis=2)


@converter(f"{HEADS}.paste_masks_in_image", cases=[
    case("float32[5,1,4,4]<1", lambda: some_boxes(5), (30, 40)),
    case("float32[0,1,4,4]<1", lambda: some_boxes(0), (30, 40), name="none"),
])  # fmt: skip
def paste_masks_in_image(op, masks, boxes, img_shape, padding=1):
    """Each mask over its box: rows and columns of the image are shares of those of the mask."""
    exact = reckoned(masks.dtype)
    framed = op.cast(op.Pad(op.Squeeze(masks, [1]), [0, padding, padding] * 2), exact)
    size, boxes = framed.shape[-1], op.cast(boxes, exact)
    left, top, right, bottom = op.Split(boxes, axis=1, num_outputs=4, outputs=4)
    wider = size / masks.shape[-1]
    rows = stretched(op, top, bottom, wider, size, img_shape[0])
    columns = stretched(op, left, right, wider, size, img_shape[1])
    pasted = op.MatMul(op.MatMul(rows, framed), op.Transpose(columns, perm=[0, 2, 1]))
    return op.cast(op.Unsqueeze(pasted, [1]), masks.dtype)


def stretched(op, low, high, wider, size, count):
    """[N, count, size]: for each pixel along an image, its shares of a mask over a box.

    The box is made wider, as the frame has made the mask. Pixels outside of it have no share.
    """
    middle = op.Mul(op.Add(high, low), 0.5)
    half = op.Mul(op.Mul(op.Sub(high, low), 0.5), wider)
    first = op.cast(op.Sub(middle, half), torch.int64)
    last = op.cast(op.Add(middle, half), torch.int64)
    length = op.cast(op.Max(op.Add(op.Sub(last, first), 1), 1), low.dtype)
    pixels = op.Range(0, op.constant(count), 1)
    place = op.Add(op.cast(op.Sub(pixels, first), low.dtype), 0.5)
    place = op.Sub(op.Mul(op.Div(float(size), length), place), 0.5)
    inside = op.And(op.GreaterOrEqual(pixels, first), op.LessOrEqual(pixels, last))
    return op.Where(op.Unsqueeze(inside, [2]), near(op, place, size), 0.0)


@converter(f"{HEADS}.heatmaps_to_keypoints", cases=[
    case("float32[5,3,8,8]", lambda: some_boxes(5)),
    case("float32[0,3,8,8]", lambda: some_boxes(0), name="none"),
])  # fmt: skip
def heatmaps_to_keypoints(op, maps, rois):
    """Each heatmap in the size of its box, which is another one for each: a loop."""
    left, top, right, bottom = op.Split(rois, axis=1, num_outputs=4, outputs=4)
    width, height = (op.Max(op.Sub(b, a), 1.0) for a, b in ((left, right), (top, bottom)))
    whole = [op.Ceil(side) for side in (height, width)]
    sizes = op.Concat(*[op.cast(side, torch.int64) for side in whole], axis=1)
    number, keypoints = maps.shape[:2]

    def largest(i, _):
        size = op.Gather(sizes, i)
        heat = op.Resize(
            op.Unsqueeze(op.Gather(maps, i), [0]), None, None, size, axes=[2, 3], mode="cubic",
            cubic_coeff_a=-0.75, coordinate_transformation_mode="half_pixel",
        )  # fmt: skip
        flat = op.Reshape(heat, op.sizes([keypoints, -1]))
        place, columns = op.ArgMax(flat, axis=1, keepdims=0), op.Gather(size, [1])
        y = op.Div(place, columns)
        x = op.Sub(place, op.Mul(y, columns))
        return op.constant(True), x, y, op.ReduceMax(flat, [1], keepdims=0)

    body = op.body(largest, op.input(torch.int64, ()), op.input(torch.bool, ()))
    found = op.Loop(op.constant(number), op.constant(True), body=body, outputs=3)
    for each in found:
        each.sized((number, keypoints))
    x, y, scores = found

    def placed(at, side, rounded, start):
        middle = op.Add(op.cast(at, maps.dtype), 0.5)
        return op.Unsqueeze(op.Add(op.Mul(middle, op.Div(side, rounded)), start), [2])

    x, y = placed(x, width, whole[1], left), placed(y, height, whole[0], top)
    ones = op.Expand(op.constant(1.0, maps.dtype), op.sizes([number, keypoints, 1]))
    return op.Concat(x, y, ones, axis=2), scores
