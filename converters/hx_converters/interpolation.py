"""Resizing of images and sequences, and sampling at given positions."""

from __future__ import annotations

import functools
import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted
from ._halves import rounded_once


def _resize(op, input, output_size, factors, **how):
    """Resize by sizes if PyTorch got sizes, and by factors if it got factors.

    The sampled positions follow from what was given, and differ where a size was rounded.
    """
    axes = list(range(2, input.rank))
    before, given = input.shape[2:], [f for f in factors if f is not None]
    after = [(n * f).__floor__() for n, f in zip(before, given)] or list(output_size)
    if output_size is not None and not op.same(after, list(output_size)):
        op.refuse("a size and a factor that do not belong together", "give one of the two")

    def resized():
        y = op.Resize(input, None, None, op.sizes(after), axes=axes, **how)
        y.sized((*input.shape[:2], *after))
        return y

    def neighbours():
        return _by_neighbours(op, input, after, given, **how)

    if not _by_resize(op, input, given, after, how):
        if given or how["mode"] != "nearest" or input.dtype == torch.float64:
            return neighbours()
        often = _is_doubled(op, before, after)  # a single node is many times as fast
        return neighbours() if often is None else _either(op, often, resized, neighbours)
    if not given:
        return resized()
    rank, each = input.rank, zip(given, before, after)
    whole, held = _whole_factors(rank, **how), _holds_whole_factors(op, after, how["mode"])
    near = [_whole(op, _nearby(f, n, m), n, m, whole, held) for f, n, m in each]
    if any(type(f) is not float for f in near):
        each = [op.Reshape(op.constant(f) if type(f) is float else f, [1]) for f in near]
        near = op.Concat(*each, axis=0) if len(each) > 1 else each[0]
    y = op.Resize(input, None, near, axes=axes, **how)
    y.sized((*input.shape[:2], *after))
    return y


def _either(op, condition, *ways):
    """Choose between two ways at run time."""
    then, other = (op.body(way) for way in ways)
    y = op.If(condition, then_branch=then, else_branch=other)
    y.sized(then.outputs[0].shape)
    return y


def _is_doubled(op, before, after):
    """Return a condition: every size is kept, doubled or halved up to three times.

    None if a fixed ratio is known and sizes change.
    """
    if any(type(n) is int and type(m) is int and n != m for n, m in zip(before, after)):
        return None  # a fixed ratio
    old, new = (op.sizes(list(sizes)) for sizes in (before, after))
    often = op.constant([[1], [2], [4], [8]])
    found = [op.Equal(x, op.Mul(y, often)) for x, y in ((old, new), (new, old))]
    found = op.ReduceMax(op.cast(op.Or(*found), torch.int32), [0], keepdims=0)
    return op.cast(op.ReduceMin(found, [0], keepdims=0), torch.bool)


def _by_resize(op, x, factors, after, how):
    """Return whether onnxruntime's Resize does what PyTorch does.

    Resize has no float64. It computes the size n * f in float32, which may be off by one. And it
    rounds positions in another way.
    """
    before = x.shape[2:]
    if x.dtype == torch.float64 or any(type(f) not in (int, float) for f in factors):
        return False
    if factors and _copied(x.rank, factors, before, after, how):
        return False
    longest = 2**20 if x.rank == 3 else 2**14  # elements of sequences; of images

    def largest(n):
        return n if type(n) is int else longest

    each = list(zip(factors or [None] * len(before), before, after))
    for f, n, m in each:
        if f and _miscounts(f, _nearby(f, n, m), n if type(n) is int else 1, largest(n)):
            return False
    if how["mode"] != "nearest":
        return True
    steps = [1 / f if f else _over(op, n, m) for f, n, m in each]
    return None not in steps and not any(
        _strays(step, _nearby(f, n, m) if f else 1 / step, largest(m), how["nearest_mode"])
        for step, (f, n, m) in zip(steps, each) if step
    )  # fmt: skip


def _over(op, n, m):
    """Return n / m if it is the same at every run, else None."""
    if type(n) is int and type(m) is int:
        return n / max(m, 1)
    if any(type(size) is int and size == 0 for size in (n, m)):
        return None
    up, down = m // n, n // m
    if type(up) is int and op.same(m, n * up):
        return 1 / up
    return float(down) if type(down) is int and op.same(n, m * down) else None


@functools.cache
def _miscounts(given, factor, first, last):
    """Return whether float32 computes another output size than PyTorch for any size in a range."""
    sizes = torch.arange(first, last + 1)
    made = sizes.float() * torch.tensor(factor, dtype=torch.float32)
    return bool(made.floor().ne((sizes.double() * given).floor()).any())


@functools.cache
def _strays(step, factor, count, rounding):
    """Return whether onnxruntime takes another nearest element than PyTorch anywhere.

    PyTorch multiplies by a rounded step, onnxruntime divides by a rounded factor. Where both
    should give an integer, one may fall below it.
    """
    places = torch.arange(count, dtype=torch.float32)
    step, factor = (torch.tensor(x, dtype=torch.float32) for x in (step, factor))
    if rounding == "floor":
        return bool((places * step).floor().ne((places / factor).floor()).any())
    other = ((places + 0.5) / factor - 0.5).double() + 0.5
    return bool(((places + 0.5) * step).floor().ne(other.floor()).any())


def _whole_factors(rank, mode, coordinate_transformation_mode, nearest_mode="", **how):
    """Return the factors that PyTorch uses for exact multiples of a size, whatever was given.

    PyTorch then copies elements (factor 1) or, for the nearest ones of images, repeats each (2).
    """
    if mode == "nearest":
        return (1, 2) if nearest_mode == "floor" and rank == 4 else ()
    return (1,) if mode == "linear" and coordinate_transformation_mode == "half_pixel" else ()


def _holds_whole_factors(op, wanted, mode):
    """Return a condition, or a bool: PyTorch uses the whole factors for an image of this size.

    For the nearest elements, only its kernel for small images does so: height and width add up to
    128 at most. (For channels in the last axis, and four or more of these, it is always that one.)
    """
    if mode != "nearest" or len(wanted) != 2:
        return True
    if all(type(m) is int for m in wanted):
        return sum(wanted) <= 128
    return op.LessOrEqual(op.constant(wanted[0] + wanted[1]), op.constant(128))


def _there(op, n, m, times, held):
    """Return a condition, or a bool: the new size is a whole multiple of the old one."""
    if held is False:
        return False
    if type(n) is int and type(m) is int:
        return held if m == n * times else False
    there = op.Equal(op.constant(m), op.constant(n * times))
    return there if held is True else op.And(there, held)


def _whole(op, factor, n, m, whole, held):
    for times in whole:
        fixed = type(n) is int and type(m) is int
        if not fixed and not times < factor < times + 0.5:
            continue  # for few elements; with one, all are alike
        there = _there(op, n, m, times, held)
        if there is True:
            factor = float(times)
        elif there is not False:
            return op.Where(there, float(times), op.constant(factor, torch.float32))
    return factor


def _copied(rank, factors, before, after, how):
    """Return whether onnxruntime may copy the input where PyTorch samples between elements.

    It copies if no size changes.
    """
    if _whole_factors(rank, **how) or all(f == 1 for f in factors):
        return False
    fixed = all(type(n) is int and type(m) is int for n, m in zip(before, after))
    return list(before) == list(after) if fixed else all(1 <= f < 1.5 for f in factors)


def _by_neighbours(op, x, wanted, factors, *, mode, coordinate_transformation_mode,
                   nearest_mode="", cubic_coeff_a=0.0):  # fmt: skip
    """Resize one axis after the other: sum the neighbours of each position times their weights.

    Positions are computed as in PyTorch: in float32, except for weights in float64.
    """
    given, sizes = x.dtype, x.shape[2:]
    kind = torch.float64 if given == torch.float64 and mode != "nearest" else torch.float32
    x = x if mode == "nearest" else op.cast(x, kind)
    off = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    whole = _whole_factors(x.rank, mode, coordinate_transformation_mode, nearest_mode)
    held = _holds_whole_factors(op, wanted, mode)
    for i, (n, m) in reversed(list(enumerate(zip(sizes, wanted)))):  # rows last: they are copied
        axis, trailing = 2 + i, list(range(1, x.rank - 2 - i))
        places = counted(op, m, kind)
        if coordinate_transformation_mode == "align_corners":
            places = op.Mul(places, op.constant((n - 1) / max(m - 1, 1), kind))
        else:
            step = op.constant(1 / factors[i] if factors else n / m, kind)
            for times in whole if factors else ():
                there = _there(op, n, m, times, held)
                if there is not False:
                    step = op.Where(there, 1 / times, step)
            places = op.Mul(op.Add(places, off) if off else places, step)

        def at(index, x=x, axis=axis, n=n):
            inside = op.Min(op.Max(op.cast(index, torch.int64), 0), op.constant(n - 1))
            return op.Gather(x, inside, axis=axis)

        if mode == "nearest":
            x = at(op.Floor(places))
            continue
        places = op.Sub(places, off) if off else places
        first, parts = op.Floor(places), []
        for k in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            distance = op.Abs(op.Sub(places, op.Add(first, k)))
            share = op.Sub(1, distance) if mode == "linear" else cubic(op, distance, cubic_coeff_a)
            share = op.Unsqueeze(share, trailing) if trailing else share
            parts.append(op.Mul(at(op.Add(first, k)), share))
        x = op.Sum(*parts)
    return op.cast(x, given)


def _nearby(factor, size, wanted):
    """Return the factor whose division gives what PyTorch gets by multiplying by 1 / factor."""
    inverse = torch.tensor(1 / factor, dtype=torch.float32)
    near = float(1 / inverse)
    return near if type(size) is int and int(size * near) == wanted else float(factor)


def _factors(scales, named):
    scales = (*scales, *named.values())
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return [s for s in scales if s is not None]


def smooth(mode, **how):
    def convert(op, input, output_size, align_corners, *scales, **named):
        if input.dtype == torch.uint8 and input.rank == 4:
            return _in_bytes(op, input, output_size, align_corners, _factors(scales, named),
                             lambda *given: _between(op, mode, *given))  # fmt: skip
        places = "align_corners" if align_corners else "half_pixel"
        return _resize(op, input, output_size, _factors(scales, named), mode=mode,
                       coordinate_transformation_mode=places, **how)  # fmt: skip

    return convert


def nearest(places, rounding):
    def convert(op, input, output_size, *scales, **named):
        return _resize(op, input, output_size, _factors(scales, named), mode="nearest",
                       coordinate_transformation_mode=places, nearest_mode=rounding)  # fmt: skip

    return convert


def triangle(op, distance):
    return op.Relu(op.Sub(1, distance))


def cubic(op, d, a=-0.5):
    square, cube = op.Mul(d, d), op.Mul(op.Mul(d, d), d)
    near = op.Add(op.Sub(op.Mul(cube, a + 2), op.Mul(square, a + 3)), 1)
    far = op.Sub(op.Add(op.Sub(op.Mul(cube, a), op.Mul(square, 5 * a)), op.Mul(d, 8 * a)), 4 * a)
    return op.Where(op.Less(d, 1), near, op.Where(op.Less(d, 2), far, 0))


def _spread(op, weigh, n, m, step, kind, align_corners=False):
    """Return weights [m, n] of old elements in new ones; windows widen as the image shrinks."""
    wide = op.Max(step, op.constant(1, kind))
    centres = op.Mul(op.Add(counted(op, m, kind), 0.5), step)
    places = op.Add(counted(op, n, kind), 0.5)
    weights = weigh(op, op.Abs(op.Div(op.Sub(places, op.Unsqueeze(centres, [1])), wide)))
    return op.Div(weights, op.ReduceSum(weights, [1]))


def _between(op, mode, n, m, step, kind, align_corners):
    """Return weights [m, n] of the nearest old elements in the new ones."""
    off = 0.0 if align_corners else 0.5
    places = op.Sub(op.Mul(op.Add(counted(op, m, kind), off), step), off)
    if mode == "linear":
        places = op.Max(places, op.constant(0, kind))
    first, shares = op.Floor(places), []
    for k in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        at = op.Add(first, k)
        distance = op.Abs(op.Sub(places, at))
        share = triangle(op, distance) if mode == "linear" else cubic(op, distance, -0.75)
        inside = op.Min(op.Max(at, op.constant(0, kind)), op.constant(n - 1, kind))
        here = op.Equal(op.Unsqueeze(inside, [1]), counted(op, n, kind))
        shares.append(op.Where(here, op.Unsqueeze(share, [1]), op.constant(0, kind)))
    return op.Sum(*shares)


def _kept(op, weights, n, m, kind):
    """Return the identity for an axis that keeps its size: PyTorch ignores the factor then."""
    if type(n) is int and type(m) is int and n != m:
        return weights
    each = op.Equal(op.Unsqueeze(counted(op, m, kind), [1]), counted(op, n, kind))
    return op.Where(op.Equal(op.constant(n), op.constant(m)), op.cast(each, kind), weights)


def _step(op, n, m, factor, align_corners, kind):
    """Return the distance between new elements, counted in old ones."""
    if align_corners:
        return op.constant((n - 1) / max(m - 1, 1) * min(m - 1, 1), kind)
    return op.constant(n / m if factor is None else 1 / factor, kind)


def _in_bytes(op, x, output_size, align_corners, factors, weights_of):
    """Resize images of bytes as PyTorch does: width, then height, each rounded to bytes.

    Weights are integers below 2 to the 15th, with as many binary digits as fit.
    """
    kind = torch.float64
    sizes = x.shape[2:]
    wanted = output_size or [(n * f).__floor__() for n, f in zip(sizes, factors)]
    x = op.cast(x, kind)
    for i in (1, 0):
        n, m = sizes[i], wanted[i]
        step = _step(op, n, m, factors[i] if factors else None, align_corners, kind)
        weights = weights_of(n, m, step, kind, align_corners)
        weights = _kept(op, weights, n, m, kind) if factors else weights
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


def smoothed(weigh):
    """Make a converter with antialiasing: it multiplies each axis by a matrix of weights.

    A window of weights widens as the image shrinks. ONNX's Resize has its own antialias, which
    onnxruntime rounds in another way than PyTorch.
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
            weights = _kept(op, weights, n, m, kind) if given else weights
            x = op.MatMul(x, op.Transpose(weights, perm=[1, 0])) if i else op.MatMul(weights, x)
        return x

    return convert


_IMAGE = case("float32[n,2,4,h]", [6, 7], False)
_BYTES = case("uint8[n,3,4,h]", [6, 7], False)
# No wider than this: onnxruntime divides by a rounded 7 / h where PyTorch multiplies
# by a rounded h / 7, and positions far from zero differ by more than the proof allows.
_NARROW = case("float32[n,2,4,h=10]", [6, 7], False)

CONVERTERS = [
    converter("torch.ops.aten.upsample_linear1d", cases=[case("float32[n,2,h=10]", [7], True)])(
        smooth("linear")
    ),
    converter("torch.ops.aten.upsample_trilinear3d",
              cases=[case("float32[n,2,2,3,4]", [4, 5, 6], False)])(smooth("linear")),
    converter("torch.ops.aten.upsample_bilinear2d", cases=[_NARROW, _BYTES])(smooth("linear")),
    converter("torch.ops.aten.upsample_bicubic2d", cases=[_NARROW, _BYTES])(
        smooth("cubic", cubic_coeff_a=-0.75)
    ),
    converter("torch.ops.aten._upsample_bilinear2d_aa", cases=[_IMAGE, _BYTES])(smoothed(triangle)),
    converter("torch.ops.aten._upsample_bicubic2d_aa", cases=[_IMAGE, _BYTES])(smoothed(cubic)),
]  # fmt: skip
for _name, _rule in (("upsample_nearest", ("asymmetric", "floor")),
                     ("_upsample_nearest_exact", ("half_pixel", "round_prefer_ceil"))):  # fmt: skip
    for _n, _sizes in enumerate(("h", "4,h", "3,4,h"), start=1):
        _wide = case(f"float32[n,2,{_sizes}]", [6] * _n)
        CONVERTERS.append(converter(f"torch.ops.aten.{_name}{_n}d", cases=[_wide])(nearest(*_rule)))

_MODES = ("linear", "nearest", "cubic")
_MODES_16 = ("bilinear", "nearest", "bicubic")  # names before opset 20
_OUTSIDE = ("zeros", "border", "reflection")


@converter("torch.grid_sampler_3d", cases=[
    case("float32[n,2,3,4,5]", "float32[n,2,3,h,3]", 0, 0, False, opsets=(20, 26)),
    case("float32[n,2,3,4,5]", "float32[n,2,3,h,3]", 1, 1, True, opsets=(20, 26)),
])  # fmt: skip
@converter("torch.grid_sampler", "torch.grid_sampler_2d", cases=[
    case("float32[n,2,4,5]", "float32[n,3,h,2]", 0, 0, False, opsets=(16, 20, 26)),
    case("float32[n,2,4,5]", "float32[n,3,h,2]", 1, 1, True, opsets=(16, 20, 26)),
])  # fmt: skip
@rounded_once
def grid_sampler(op, input, grid, interpolation_mode, padding_mode, align_corners):
    if input.rank > 4 and op.opset < 20:
        op.refuse(f"opset {op.opset} samples images, not volumes", "export with opset=20 or newer")
    mode, outside = _MODES[interpolation_mode], _OUTSIDE[padding_mode]
    y = op.GridSample(input, _within_reach(op, grid, outside), align_corners=int(align_corners),
                      mode=mode if op.opset >= 20 else _MODES_16[interpolation_mode],
                      padding_mode=outside)  # fmt: skip
    if mode != "cubic" and (mode == "nearest" or outside != "zeros" or input.rank > 4):
        return y
    # PyTorch adds the weights of all neighbours: NaN for an infinite or NaN position.
    spoilt = op.ReduceSum(op.Mul(grid, 0), [grid.rank - 1], keepdims=0)
    return op.Add(y, op.Unsqueeze(spoilt, [1]))


def _within_reach(op, grid, outside):
    """Move positions into the range that onnxruntime can handle; an image reaches from -1 to 1.

    onnxruntime is wrong beyond 2^23 elements. In PyTorch, NaN means the first element, or the last
    one in volumes; with reflection, infinite positions do so, too.
    """
    end = 1 if grid.shape[-1] == 3 else -1
    if outside != "reflection":
        # Far enough out for all neighbours to lie outside, however few elements there are.
        return op.Where(op.IsNaN(grid), 10 * end, op.Clip(grid, -10, 10))
    far = op.Abs(grid)
    folded = op.Sub(1, op.Abs(op.Sub(op.Mod(op.Add(far, 1), 4, fmod=1), 2)))
    folded = op.Where(op.Less(grid, 0), op.Neg(folded), folded)
    places = op.Where(op.LessOrEqual(far, 1), grid, folded)
    return op.Where(op.IsNaN(places), end, places)


@converter("torch.affine_grid_generator", cases=[
    case("float32[2,2,3]", [2, 1, 4, 5], False), case("float32[2,3,4]", [2, 1, 3, 4, 5], True),
    case("float32[2,2,3]", [2, 1, 1, 5], True),
])  # fmt: skip
def affine_grid_generator(op, theta, size, align_corners):
    """Map each element of an image to its position in another, by one matrix for each image."""
    spatial = list(size[2:])
    axes = []
    for i, n in enumerate(reversed(spatial)):
        steps = counted(op, n, theta.dtype)
        if align_corners:
            width = op.constant(max(n - 1, 1), theta.dtype)
            place = op.Sub(op.Div(op.Mul(steps, 2), width), 1)
            if type(n) is not int or n == 1:  # a single one lies in the middle
                place = op.Add(place, op.constant(1 // n, theta.dtype))
        else:
            place = op.Sub(op.Div(op.Add(op.Mul(steps, 2), 1), op.constant(n, theta.dtype)), 1)
        wide = op.Reshape(place, [-1] + [1] * i)
        axes.append(op.Unsqueeze(op.Expand(wide, op.sizes(spatial)), [len(spatial)]))
    ones = op.Expand(op.constant(1, theta.dtype), op.sizes([*spatial, 1]))
    flat = op.Reshape(op.Concat(*axes, ones, axis=len(spatial)), [-1, len(spatial) + 1])
    grid = op.MatMul(flat, op.Transpose(theta, perm=[0, 2, 1]))
    return op.Reshape(grid, op.sizes([size[0], *spatial, len(spatial)]))
