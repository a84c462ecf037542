"""Convolution, pooling, and resizing of images."""

from __future__ import annotations

from ..shapes import Unknown, numbers, shape_of
from ..sizes import dims, integer_functions
from ._rule import rule


def _window(n: int, kernel: int, stride: int, dilation: int, pad: int, ceil: bool) -> int:
    wide = dilation * (kernel - 1) + 1
    free = n + pad - wide
    if not ceil:
        return free // stride + 1
    last = integer_functions.ceil_div(free, stride)
    if wide < stride + pad // 2:  # it may start in the right padding, and does not count then
        last = dims.smaller(last, (n + pad // 2 - 1) // stride)
    return last + 1


def _spatial(inputs, attributes, kernel, x):
    k = len(kernel)
    strides = attributes.get("strides") or [1] * k
    dilations = attributes.get("dilations") or [1] * k
    pads = attributes.get("pads") or [0] * (2 * k)
    auto = attributes.get("auto_pad", "NOTSET")
    ceil = bool(attributes.get("ceil_mode"))
    out = []
    for i in range(k):
        n = x[2 + i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out.append(integer_functions.ceil_div(n, strides[i]))
        else:
            pad = 0 if auto == "VALID" else pads[i] + pads[k + i]
            if ceil and pads[i] != pads[k + i]:
                raise Unknown
            out.append(_window(n, kernel[i], strides[i], dilations[i], pad, ceil))
    return tuple(out)


@rule("Conv", "ConvInteger")
def _conv(inputs, attributes, count):
    x, w = shape_of(inputs[0]), shape_of(inputs[1])
    return [(x[0], w[0], *_spatial(inputs, attributes, w[2:], x))]


@rule("ConvTranspose")
def _conv_transpose(inputs, attributes, count):
    x, w = shape_of(inputs[0]), shape_of(inputs[1])
    k = len(x) - 2
    if attributes.get("output_shape") or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    strides = attributes.get("strides") or [1] * k
    dilations = attributes.get("dilations") or [1] * k
    pads = attributes.get("pads") or [0] * (2 * k)
    extra = attributes.get("output_padding") or [0] * k
    spatial = [
        (x[2 + i] - 1) * strides[i] + extra[i] + (w[2 + i] - 1) * dilations[i] + 1
        - pads[i] - pads[k + i]
        for i in range(k)
    ]  # fmt: skip
    return [(x[0], w[1] * attributes.get("group", 1), *spatial)]


@rule("MaxPool", "AveragePool", "LpPool")
def _pool(inputs, attributes, count):
    x = shape_of(inputs[0])
    return [(x[0], x[1], *_spatial(inputs, attributes, attributes["kernel_shape"], x))] * count


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(inputs, attributes, count):
    x = shape_of(inputs[0])
    return [x[:2] + (1,) * (len(x) - 2)]


@rule("Resize")
def _resize(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    if len(inputs) > 3 and inputs[3] is not None:
        sizes = numbers(inputs[3])
        for a, n in zip(attributes.get("axes") or range(len(x)), sizes):
            x[a] = n
        return [tuple(x)]
    return None


@rule("GridSample")
def _grid_sample(inputs, attributes, count):
    x, grid = shape_of(inputs[0]), shape_of(inputs[1])
    return [(*x[:2], *grid[1:-1])]


@rule("DeformConv")
def _deform_conv(inputs, attributes, count):
    x, w, offset = map(shape_of, inputs[:3])
    return [(x[0], w[0], *offset[2:])]


@rule("RoiAlign")
def _roi_align(inputs, attributes, count):
    x, which = shape_of(inputs[0]), shape_of(inputs[2])
    size = attributes.get("output_height", 1), attributes.get("output_width", 1)
    return [(which[0], x[1], *size)]


@rule("MaxRoiPool")
def _max_roi_pool(inputs, attributes, count):
    x, rois = shape_of(inputs[0]), shape_of(inputs[1])
    return [(rois[0], x[1], *attributes["pooled_shape"])]


@rule("DepthToSpace")
def _depth_to_space(inputs, attributes, count):
    n, c, h, w = shape_of(inputs[0])
    b = attributes["blocksize"]
    return [(n, c // (b * b), h * b, w * b)]


@rule("SpaceToDepth")
def _space_to_depth(inputs, attributes, count):
    n, c, h, w = shape_of(inputs[0])
    b = attributes["blocksize"]
    return [(n, c * b * b, h // b, w // b)]


# Recurrent.
