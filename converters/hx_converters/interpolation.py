"""Resizing images and sequences, and sampling them at other places."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted


def _resize(op, input, output_size, factors, **how):
    """By sizes where PyTorch got sizes, and by factors where it got those: the places that are
    sampled follow from the one that was given, and differ where a size was rounded."""
    axes = list(range(2, input.rank))
    given = [f for f in factors if f is not None]
    if input.dtype == torch.float64:  # onnxruntime's Resize has none
        return _by_neighbours(op, input, output_size, given, **how)
    if not given:
        return op.Resize(input, None, None, op.sizes(output_size), axes=axes, **how)
    sizes = [(n * f).__floor__() for n, f in zip(input.shape[2:], given)]
    if output_size is not None and not op.same(sizes, list(output_size)):
        op.refuse("a size and a factor that do not belong together", "give one of the two")
    near = [_nearby(f, n, size) for f, n, size in zip(given, input.shape[2:], sizes)]
    y = op.Resize(input, None, near, axes=axes, **how)
    y.sized((*input.shape[:2], *sizes))
    return y


def _by_neighbours(op, x, output_size, factors, *, mode, coordinate_transformation_mode,
                   nearest_mode="", cubic_coeff_a=0.0):  # fmt: skip
    """One axis after the other: of each place, the neighbours times their shares."""
    sizes = x.shape[2:]
    wanted = output_size or [(n * f).__floor__() for n, f in zip(sizes, factors)]
    for i, (n, m) in enumerate(zip(sizes, wanted)):
        axis, trailing = 2 + i, list(range(1, x.rank - 2 - i))
        places = counted(op, m, x.dtype)
        if coordinate_transformation_mode == "align_corners":
            places = op.Mul(places, op.constant((n - 1) / max(m - 1, 1), x.dtype))
        else:
            off = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
            step = op.constant(1 / factors[i] if factors else n / m, x.dtype)
            places = op.Sub(op.Mul(op.Add(places, off), step), off)

        def at(index, x=x, axis=axis, n=n):
            inside = op.Min(op.Max(op.cast(index, torch.int64), 0), op.constant(n - 1))
            return op.Gather(x, inside, axis=axis)

        if mode == "nearest":
            x = at(op.Floor(places if nearest_mode == "floor" else op.Add(places, 0.5)))
            continue
        first, parts = op.Floor(places), []
        for k in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            distance = op.Abs(op.Sub(places, op.Add(first, k)))
            share = op.Sub(1, distance) if mode == "linear" else _cubic(op, distance, cubic_coeff_a)
            share = op.Unsqueeze(share, trailing) if trailing else share
            parts.append(op.Mul(at(op.Add(first, k)), share))
        x = op.Sum(*parts)
    return x


def _nearby(factor, size, wanted):
    """PyTorch multiplies places by 1 / factor in float32: the factor to divide by for the same."""
    inverse = torch.tensor(1 / factor, dtype=torch.float32)
    near = float(1 / inverse)
    return near if type(size) is int and int(size * near) == wanted else float(factor)


def _factors(scales, named):
    scales = (*scales, *named.values())
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return [s for s in scales if s is not None]


def _smooth(mode, **how):
    def convert(op, input, output_size, align_corners, *scales, **named):
        if input.dtype == torch.uint8 and input.rank == 4:
            return _in_bytes(op, input, output_size, align_corners, _factors(scales, named),
                             lambda *given: _between(op, mode, *given))  # fmt: skip
        places = "align_corners" if align_corners else "half_pixel"
        return _resize(op, input, output_size, _factors(scales, named), mode=mode,
                       coordinate_transformation_mode=places, **how)  # fmt: skip

    return convert


def _nearest(places, rounding):
    def convert(op, input, output_size, *scales, **named):
        return _resize(op, input, output_size, _factors(scales, named), mode="nearest",
                       coordinate_transformation_mode=places, nearest_mode=rounding)  # fmt: skip

    return convert


def _triangle(op, distance):
    return op.Relu(op.Sub(1, distance))


def _cubic(op, d, a=-0.5):
    square, cube = op.Mul(d, d), op.Mul(op.Mul(d, d), d)
    near = op.Add(op.Sub(op.Mul(cube, a + 2), op.Mul(square, a + 3)), 1)
    far = op.Sub(op.Add(op.Sub(op.Mul(cube, a), op.Mul(square, 5 * a)), op.Mul(d, 8 * a)), 4 * a)
    return op.Where(op.Less(d, 1), near, op.Where(op.Less(d, 2), far, 0))


def _spread(op, weigh, n, m, step, kind, align_corners=False):
    """[m, n]: the shares of the old elements in the new ones, as wide as the image shrinks."""
    wide = op.Max(step, op.constant(1, kind))
    centres = op.Mul(op.Add(counted(op, m, kind), 0.5), step)
    places = op.Add(counted(op, n, kind), 0.5)
    weights = weigh(op, op.Abs(op.Div(op.Sub(places, op.Unsqueeze(centres, [1])), wide)))
    return op.Div(weights, op.ReduceSum(weights, [1]))


def _between(op, mode, n, m, step, kind, align_corners):
    """[m, n]: the shares of the nearest old elements in the new ones."""
    off = 0.0 if align_corners else 0.5
    places = op.Sub(op.Mul(op.Add(counted(op, m, kind), off), step), off)
    if mode == "linear":
        places = op.Max(places, op.constant(0, kind))
    first, shares = op.Floor(places), []
    for k in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        at = op.Add(first, k)
        distance = op.Abs(op.Sub(places, at))
        share = _triangle(op, distance) if mode == "linear" else _cubic(op, distance, -0.75)
        inside = op.Min(op.Max(at, op.constant(0, kind)), op.constant(n - 1, kind))
        here = op.Equal(op.Unsqueeze(inside, [1]), counted(op, n, kind))
        shares.append(op.Where(here, op.Unsqueeze(share, [1]), op.constant(0, kind)))
    return op.Sum(*shares)


def _step(op, n, m, factor, align_corners, kind):
    """How far apart new elements are, counted in old ones."""
    if align_corners:
        return op.constant((n - 1) / max(m - 1, 1) * min(m - 1, 1), kind)
    return op.constant(1 / factor if factor else n / m, kind)


def _in_bytes(op, x, output_size, align_corners, factors, weights_of):
    """Images of bytes, as PyTorch resizes them: width, then height, each rounded to bytes.

    Weights are whole numbers below 2 to the 15th, with as many binary digits as fit.
    """
    kind = torch.float64
    sizes = x.shape[2:]
    wanted = output_size or [(n * f).__floor__() for n, f in zip(sizes, factors)]
    x = op.cast(x, kind)
    for i in (1, 0):
        n, m = sizes[i], wanted[i]
        step = _step(op, n, m, factors[i] if factors else None, align_corners, kind)
        weights = weights_of(n, m, step, kind, align_corners)
        fits = op.Div(op.Log(op.Div(2**15 - 0.5, op.ReduceMax(weights, keepdims=0))), math.log(2))
        digits = op.Min(op.Max(op.Sub(op.Ceil(fits), 1), op.constant(0.0, kind)),
                        op.constant(22.0, kind))  # fmt: skip
        one = op.Round(op.Pow(op.constant(2.0, kind), digits))
        whole = op.Floor(op.Add(op.Mul(op.Abs(weights), one), 0.5))
        whole = op.Mul(op.Sign(weights), whole)
        x = op.MatMul(x, op.Transpose(whole, perm=[1, 0])) if i else op.MatMul(whole, x)
        x = op.Floor(op.Add(op.Div(x, one), 0.5))
        x = op.Min(op.Max(x, op.constant(0.0, kind)), op.constant(255.0, kind))
    return op.cast(x, torch.uint8)


def _smoothed(weigh):
    """With antialiasing: each axis times a matrix of weights, as wide as the image shrinks.

    ONNX's Resize has an antialias of its own, which onnxruntime rounds otherwise than PyTorch.
    """

    def convert(op, input, output_size, align_corners, *scales, **named):
        given = _factors(scales, named)
        if input.dtype == torch.uint8:
            return _in_bytes(op, input, output_size, align_corners, given,
                             lambda *how: _spread(op, weigh, *how))  # fmt: skip
        sizes, kind = input.shape[2:], input.dtype
        wanted = output_size or [(n * f).__floor__() for n, f in zip(sizes, given)]
        x = input
        for i, (n, m) in enumerate(zip(sizes, wanted)):
            step = _step(op, n, m, given[i] if given else None, align_corners, kind)
            weights = _spread(op, weigh, n, m, step, kind)
            x = op.MatMul(x, op.Transpose(weights, perm=[1, 0])) if i else op.MatMul(weights, x)
        return x

    return convert


_IMAGE = case("float32[n,2,4,h]", [6, 7], False)
_BYTES = case("uint8[n,3,4,h]", [6, 7], False)
# No wider than this: onnxruntime divides by a rounded 7 / h where PyTorch multiplies
# by a rounded h / 7, and places far from zero differ by more than the proof allows.
_NARROW = case("float32[n,2,4,h=10]", [6, 7], False)

CONVERTERS = [
    converter("torch.ops.aten.upsample_linear1d", cases=[case("float32[n,2,h=10]", [7], True)])(
        _smooth("linear")
    ),
    converter("torch.ops.aten.upsample_trilinear3d",
              cases=[case("float32[n,2,2,3,4]", [4, 5, 6], False)])(_smooth("linear")),
    converter("torch.ops.aten.upsample_bilinear2d", cases=[_NARROW, _BYTES])(_smooth("linear")),
    converter("torch.ops.aten.upsample_bicubic2d", cases=[_NARROW, _BYTES])(
        _smooth("cubic", cubic_coeff_a=-0.75)
    ),
    converter("torch.ops.aten._upsample_bilinear2d_aa", cases=[_IMAGE, _BYTES])(_smoothed(_triangle)),
    converter("torch.ops.aten._upsample_bicubic2d_aa", cases=[_IMAGE, _BYTES])(_smoothed(_cubic)),
]  # fmt: skip
for _name, _rule in (("upsample_nearest", ("asymmetric", "floor")),
                     ("_upsample_nearest_exact", ("half_pixel", "round_prefer_ceil"))):  # fmt: skip
    for _n, _sizes in enumerate(("h", "4,h", "3,4,h"), start=1):
        _wide = case(f"float32[n,2,{_sizes}]", [6] * _n)
        CONVERTERS.append(
            converter(f"torch.ops.aten.{_name}{_n}d", cases=[_wide])(_nearest(*_rule))
        )

_MODES = ("linear", "nearest", "cubic")
_MODES_16 = ("bilinear", "nearest", "bicubic")  # as they were called before opset 20
_OUTSIDE = ("zeros", "border", "reflection")


@converter("torch.grid_sampler_3d", cases=[
    case("float32[n,2,3,4,5]", "float32[n,2,3,h,3]", 0, 0, False, opsets=(20, 26)),
    case("float32[n,2,3,4,5]", "float32[n,2,3,h,3]", 1, 1, True, opsets=(20, 26)),
])  # fmt: skip
@converter("torch.grid_sampler", "torch.grid_sampler_2d", cases=[
    case("float32[n,2,4,5]", "float32[n,3,h,2]", 0, 0, False, opsets=(16, 20, 26)),
    case("float32[n,2,4,5]", "float32[n,3,h,2]", 1, 1, True, opsets=(16, 20, 26)),
])  # fmt: skip
def grid_sampler(op, input, grid, interpolation_mode, padding_mode, align_corners):
    if input.rank > 4 and op.opset < 20:
        op.refuse(f"opset {op.opset} samples images, not volumes", "export with opset=20 or newer")
    modes = _MODES if op.opset >= 20 else _MODES_16
    return op.GridSample(input, grid, mode=modes[interpolation_mode],
                         padding_mode=_OUTSIDE[padding_mode], align_corners=int(align_corners))  # fmt: skip


@converter("torch.affine_grid_generator", cases=[
    case("float32[2,2,3]", [2, 1, 4, 5], False), case("float32[2,3,4]", [2, 1, 3, 4, 5], True),
])  # fmt: skip
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
