"""Resizing images and sequences."""

from __future__ import annotations

from hx import converter


def _resize(op, input, output_size, scales, **attributes):
    """Sizes where they are known, so that rounding is PyTorch's; else the factors."""
    axes = list(range(2, input.rank))
    if output_size is None:
        floor = [(n * s).__floor__() for n, s in zip(input.shape[2:], scales)]
        output_size = floor
    return op.Resize(input, None, None, op.sizes(output_size), axes=axes, **attributes)


def _linear(op, input, output_size, align_corners, scales):
    mode = "align_corners" if align_corners else "half_pixel"
    if any(type(n) is int and n == 1 for n in output_size or ()) and not align_corners:
        mode = "pytorch_half_pixel"
    return _resize(op, input, output_size, scales, mode="linear",
                   coordinate_transformation_mode=mode)  # fmt: skip


@converter("torch.ops.aten.upsample_linear1d", "torch.ops.aten.upsample_bilinear2d",
           "torch.ops.aten.upsample_trilinear3d", cases=[])  # fmt: skip
def upsample_linear(op, input, output_size, align_corners, *scales):
    return _linear(op, input, output_size, align_corners, _factors(scales))


@converter("torch.ops.aten.upsample_nearest1d", "torch.ops.aten.upsample_nearest2d",
           "torch.ops.aten.upsample_nearest3d", cases=[])  # fmt: skip
def upsample_nearest(op, input, output_size, *scales):
    return _resize(op, input, output_size, _factors(scales), mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip


@converter("torch.ops.aten.upsample_bicubic2d", cases=[])
def upsample_bicubic(op, input, output_size, align_corners, *scales):
    mode = "align_corners" if align_corners else "half_pixel"
    return _resize(op, input, output_size, _factors(scales), mode="cubic", cubic_coeff_a=-0.75,
                   coordinate_transformation_mode=mode)  # fmt: skip


def _factors(scales):
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return [s for s in scales if s is not None]
