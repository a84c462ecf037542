"""Resizing images and sequences, and sampling them at other places."""

from __future__ import annotations

from hx import case, converter

from ._common import counted


def _resize(op, input, output_size, factors, **how):
    """By sizes where PyTorch got sizes, and by factors where it got those: the places that are
    sampled follow from the one that was given, and differ where a size was rounded."""
    axes = list(range(2, input.rank))
    given = [f for f in factors if f is not None]
    if not given:
        return op.Resize(input, None, None, op.sizes(output_size), axes=axes, **how)
    y = op.Resize(input, None, [float(f) for f in given], axes=axes, **how)
    sizes = [n * f for n, f in zip(input.shape[2:], given)]
    y.sized((*input.shape[:2], *(s.__floor__() for s in sizes)))
    return y


def _factors(scales, named):
    scales = (*scales, *named.values())
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return [s for s in scales if s is not None]


def _smooth(mode, **how):
    def convert(op, input, output_size, align_corners, *scales, **named):
        places = "align_corners" if align_corners else "half_pixel"
        return _resize(op, input, output_size, _factors(scales, named), mode=mode,
                       coordinate_transformation_mode=places, **how)  # fmt: skip

    return convert


def _nearest(places, rounding):
    def convert(op, input, output_size, *scales, **named):
        return _resize(op, input, output_size, _factors(scales, named), mode="nearest",
                       coordinate_transformation_mode=places, nearest_mode=rounding)  # fmt: skip

    return convert


def _named(kind):
    return [f"torch.ops.aten.{kind}{n}d" for n in (1, 2, 3)]


_IMAGE = case("float32[n,2,4,h]", [6, 7], False)

CONVERTERS = [
    converter("torch.ops.aten.upsample_linear1d", "torch.ops.aten.upsample_trilinear3d")(
        _smooth("linear")
    ),
    converter("torch.ops.aten.upsample_bilinear2d", cases=[_IMAGE])(_smooth("linear")),
    converter("torch.ops.aten.upsample_bicubic2d", cases=[_IMAGE])(
        _smooth("cubic", cubic_coeff_a=-0.75)
    ),
    converter("torch.ops.aten._upsample_bilinear2d_aa", cases=[_IMAGE])(
        _smooth("linear", antialias=1)
    ),
    converter("torch.ops.aten._upsample_bicubic2d_aa", cases=[_IMAGE])(
        _smooth("cubic", antialias=1, cubic_coeff_a=-0.5)
    ),
    converter(*_named("upsample_nearest"))(_nearest("asymmetric", "floor")),
    converter(*_named("_upsample_nearest_exact"))(_nearest("half_pixel", "round_prefer_ceil")),
]

_MODES = ("linear", "nearest", "cubic")
_OUTSIDE = ("zeros", "border", "reflection")


@converter("torch.grid_sampler", "torch.grid_sampler_2d", "torch.grid_sampler_3d",
           cases=[case("float32[n,2,4,5]", "float32[n,3,h,2]", 0, 0, False),
                  case("float32[n,2,4,5]", "float32[n,3,h,2]", 1, 1, True)])  # fmt: skip
def grid_sampler(op, input, grid, interpolation_mode, padding_mode, align_corners):
    return op.GridSample(input, grid, mode=_MODES[interpolation_mode],
                         padding_mode=_OUTSIDE[padding_mode], align_corners=int(align_corners))  # fmt: skip


@converter("torch.affine_grid_generator", cases=[case("float32[n,2,3]", [2, 1, 4, 5], False)][:0])
def affine_grid_generator(op, theta, size, align_corners):
    """Where each element of an image of some size lies in another, by a matrix for each image."""
    spatial = list(size[2:])
    axes = []
    for i, n in enumerate(reversed(spatial)):
        steps = counted(op, n, theta.dtype)
        if align_corners:
            width = op.constant(max(n - 1, 1), theta.dtype)
            place = op.Sub(op.Div(op.Mul(steps, 2), width), 1)
        else:
            place = op.Sub(op.Div(op.Add(op.Mul(steps, 2), 1), op.constant(n, theta.dtype)), 1)
        wide = op.Reshape(place, [-1] + [1] * i)
        axes.append(op.Unsqueeze(op.Expand(wide, op.sizes(spatial)), [len(spatial)]))
    ones = op.Expand(op.constant(1, theta.dtype), op.sizes([*spatial, 1]))
    flat = op.Reshape(op.Concat(*axes, ones, axis=len(spatial)), [-1, len(spatial) + 1])
    grid = op.MatMul(flat, op.Transpose(theta, perm=[0, 2, 1]))
    return op.Reshape(grid, op.sizes([size[0], *spatial, len(spatial)]))
