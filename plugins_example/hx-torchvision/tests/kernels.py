"""What torchvision's compiled operators compute, in PyTorch, for builds of it that lack them.

The wheels of some platforms carry operators for another accelerator only, and do not load. Where
torchvision has its own, nothing here is used.
"""

import math
import sys

import torch

_libraries = []

SCHEMAS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width) -> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias,"
    " SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h,"
    " SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
]


def torchvision():
    """The library, with the operators below where it has none of its own."""
    if not _libraries:
        library = torch.library.Library("torchvision", "FRAGMENT")
        _libraries.append(library)
        try:
            import torchvision.extension
        except RuntimeError:  # without the schemas of these two it does not even import
            for schema in SCHEMAS[:2]:
                library.define(schema)
        import torchvision.extension

        if not torchvision.extension._has_ops():
            for schema in SCHEMAS[2:]:
                library.define(schema)
            for kernel in (nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d):
                library.impl(kernel.__name__, kernel, "CPU")
            for name in ("torchvision.extension", "torchvision.ops.roi_align"):
                sys.modules[name]._has_ops = lambda: True
    return sys.modules["torchvision"]


def nms(dets, scores, iou_threshold):
    order = scores.argsort(stable=True, descending=True)
    x1, y1, x2, y2 = dets[order].unbind(1)
    area = (x2 - x1) * (y2 - y1)
    gone = torch.zeros(len(order), dtype=torch.bool)
    kept = []
    for i in range(len(order)):
        if gone[i]:
            continue
        kept.append(i)
        rest = slice(i + 1, None)
        width = (torch.minimum(x2[i], x2[rest]) - torch.maximum(x1[i], x1[rest])).clamp(min=0)
        height = (torch.minimum(y2[i], y2[rest]) - torch.maximum(y1[i], y1[rest])).clamp(min=0)
        both = width * height
        gone[rest] |= (both / (area[i] + area[rest] - both)).double() > iou_threshold
    return order[torch.tensor(kept, dtype=torch.int64)]


def bilinear(images, y, x):
    """Points of [C, H, W], or of each of [K, C, H, W]: up to one pixel outside counts as the edge,
    and farther as zero."""
    height, width = images.shape[-2:]
    outside = (y < -1) | (y > height) | (x < -1) | (x > width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor().long(), x.floor().long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    down, over = y - top, x - left

    def pixels(row, column):
        return images.flatten(-2)[:, row * width + column]

    above = pixels(top, left) * (1 - over) + pixels(top, right) * over
    below = pixels(bottom, left) * (1 - over) + pixels(bottom, right) * over
    return (above * (1 - down) + below * down).masked_fill(outside, 0)


def bins(image, rois, pooled_height, pooled_width, sampling_ratio):
    """[K, C, PH, PW]: the mean of the points that are sampled in each bin of each region."""
    if sampling_ratio <= 0 and len(rois) != 1:  # as many points as each is large
        each = [bins(image, roi[None], pooled_height, pooled_width, sampling_ratio) for roi in rois]
        return (
            torch.cat(each)
            if each
            else image.new_zeros((0, len(image), pooled_height, pooled_width))
        )
    x1, y1, x2, y2 = rois[:, :, None, None].unbind(1)

    def places(start, end, count):
        step = (end - start) / count
        many = sampling_ratio if sampling_ratio > 0 else max(math.ceil(step), 0)
        inside = (torch.arange(many, dtype=image.dtype) + 0.5) / max(many, 1)
        return start + step * (torch.arange(count, dtype=image.dtype)[:, None] + inside)

    y, x = places(y1, y2, pooled_height), places(x1, x2, pooled_width)
    points = bilinear(
        image, *torch.broadcast_tensors(y[:, :, None, :, None], x[:, None, :, None, :])
    )
    return points.sum((-1, -2)).transpose(0, 1) / max(y.shape[-1] * x.shape[-1], 1)


AT_ONCE = 64


def by_image(input, rois, scale, offset, pool):
    """What `pool(image, boxes)` finds, some regions of one image at a time."""
    found = [None] * len(rois)
    for n, image in enumerate(input):
        own = (rois[:, 0].long() == n).nonzero().flatten()
        for part in own.split(AT_ONCE) if len(own) else ():
            for place, pooled in zip(part, pool(image, rois[part, 1:] * scale - offset)):
                found[place] = pooled
    return found


def regions(input, rois, scale, offset):
    for roi in rois:
        yield input[int(roi[0])], roi[1:] * scale - offset


def stacked(found, input, channels, pooled_height, pooled_width):
    empty = input.new_zeros((0, channels, pooled_height, pooled_width))
    return torch.stack(found) if found else empty


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    def pool(image, boxes):
        if not aligned:
            boxes = torch.cat([boxes[:, :2], torch.maximum(boxes[:, 2:], boxes[:, :2] + 1)], 1)
        return bins(image, boxes, pooled_height, pooled_width, sampling_ratio)

    found = by_image(input, rois, spatial_scale, 0.5 if aligned else 0.0, pool)
    return stacked(found, input, input.shape[1], pooled_height, pooled_width)


def own_channels(found, pooled_height, pooled_width):
    """Of [K, C * PH * PW, PH, PW], for each bin the channels that are there for it."""
    each = found.reshape(len(found), -1, *(pooled_height, pooled_width) * 2)
    rows, columns = torch.arange(pooled_height)[:, None], torch.arange(pooled_width)
    return each[:, :, rows, columns, rows, columns]


def mapping(input, rois, pooled_height, pooled_width):
    size = pooled_height * pooled_width
    channels = torch.arange(input.shape[1] // size * size, dtype=torch.int32)
    return channels.reshape(1, -1, pooled_height, pooled_width).repeat(len(rois), 1, 1, 1)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    size = (pooled_height, pooled_width)

    def pool(image, boxes):
        return own_channels(bins(image, boxes, *size, sampling_ratio), *size)

    found = by_image(input, rois, spatial_scale, 0.5, pool)
    pooled = stacked(found, input, input.shape[1] // (pooled_height * pooled_width), *size)
    return pooled, mapping(input, rois, *size)


def whole(x):
    """Rounded, halves away from zero as in C."""
    return int(math.copysign(math.floor(abs(float(x)) + 0.5), float(x)))


def windows(image, roi, pooled_height, pooled_width, least, last):
    """Each bin of one region: its row and column, and the pixels in it."""
    height, width = image.shape[-2:]
    x1, y1, x2, y2 = map(whole, roi)
    step_y = max(y2 - y1 + least, 1) / pooled_height
    step_x = max(x2 - x1 + least, 1) / pooled_width
    for i in range(pooled_height):
        top = min(max(math.floor(i * step_y) + y1, 0), height - last)
        bottom = min(max(math.ceil((i + 1) * step_y) + y1, 0), height - last)
        for j in range(pooled_width):
            left = min(max(math.floor(j * step_x) + x1, 0), width - last)
            right = min(max(math.ceil((j + 1) * step_x) + x1, 0), width - last)
            yield i, j, image[:, top:bottom, left:right]


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    pooled = input.new_zeros((len(rois), input.shape[1], pooled_height, pooled_width))
    for n, (image, roi) in enumerate(regions(input, rois, spatial_scale, 0.0)):
        for i, j, pixels in windows(image, roi, pooled_height, pooled_width, least=1, last=0):
            if pixels.numel():
                pooled[n, :, i, j] = pixels.amax((1, 2))
    return pooled, torch.zeros_like(pooled, dtype=torch.int32)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    size = (pooled_height, pooled_width)
    each = input.shape[1] // (pooled_height * pooled_width)
    pooled = input.new_zeros((len(rois), each, *size))
    for n, (image, roi) in enumerate(regions(input, rois, spatial_scale, 0.0)):
        for i, j, pixels in windows(image, roi, *size, least=0, last=1):
            if pixels.numel():
                pooled[n, :, i, j] = pixels.mean((1, 2)).reshape(each, *size)[:, i, j]
    return pooled, mapping(input, rois, *size)


def deform_conv2d(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    groups, offset_groups, use_mask,
):  # fmt: skip
    batch, channels, height, width = input.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    out_h, out_w = offset.shape[-2:]
    offset = offset.reshape(batch, offset_groups, kernel_h, kernel_w, 2, out_h, out_w)
    if use_mask:
        mask = mask.reshape(batch, offset_groups, kernel_h, kernel_w, out_h, out_w)
    # One pixel of zeros around, so that points between it and the image fade.
    framed = torch.nn.functional.pad(input, (1, 1, 1, 1))
    columns = input.new_zeros((batch, channels, kernel_h, kernel_w, out_h, out_w))
    each = channels // offset_groups
    for n in range(batch):
        for g in range(offset_groups):
            own = slice(g * each, (g + 1) * each)
            for i in range(kernel_h):
                for j in range(kernel_w):
                    rows = torch.arange(out_h)[:, None] * stride_h - pad_h + i * dilation_h
                    places = torch.arange(out_w) * stride_w - pad_w + j * dilation_w
                    y = (rows + offset[n, g, i, j, 0]).clamp(-1, height)
                    x = (places + offset[n, g, i, j, 1]).clamp(-1, width)
                    found = bilinear(framed[n, own], y + 1, x + 1)
                    columns[n, own, i, j] = found * mask[n, g, i, j] if use_mask else found
    columns = columns.reshape(batch, groups, -1, out_h * out_w)
    product = weight.reshape(groups, out_channels // groups, -1) @ columns
    return product.reshape(batch, out_channels, out_h, out_w) + bias[:, None, None]
