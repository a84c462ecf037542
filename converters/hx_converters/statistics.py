"""Variances, medians, quantiles, histograms."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, moved, one_axis, scalars_too
from ._halves import rounded_once
from .arithmetic import between
from .ordering import in_order, places
from .reduction import count_of, reduced
from .scattering import ADDS

ALONG = [case("float32[n,3]"), case("float32[n,3]", 1), case("float32[n,3]", [0, 1], True)]
ONE_AXIS = [case("float32[n,5]"), case("float32[n,5]", 1), case("float32[n,5]", 1, True)]


def _variance(op, x, dim, correction, keepdim):
    centred = op.Sub(x, reduced(op, "ReduceMean", x, dim, True) if x.rank else x)
    centred = op.Abs(centred) if x.dtype.is_complex else centred
    squares = reduced(op, "ReduceSum", op.Mul(centred, centred), dim, keepdim)
    return op.Div(squares, op.constant(max(count_of(x, dim) - correction, 0), squares.dtype))


def _spread(root, with_mean):
    """Register var or std, alone or with the mean, in every form that PyTorch has."""

    @rounded_once
    def convert(op, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        y = _variance(op, input, dim, correction, keepdim)
        y = op.Sqrt(y) if root else y
        if not with_mean:
            return y
        return y, _mean(op, input, dim, keepdim)

    return convert


def _mean(op, x, dim, keepdim):
    return op.Div(reduced(op, "ReduceSum", x, dim, keepdim), op.constant(count_of(x, dim), x.dtype))


CONVERTERS = [
    converter(f"torch.{'std' if root else 'var'}{'_mean' if with_mean else ''}", cases=ALONG)(
        _spread(root, with_mean)
    )
    for root in (False, True)
    for with_mean in (False, True)
]


# Medians: the lower of two that lie in the middle.


def _flat(op, x):
    return op.Reshape(x, [-1])


def _median(op, x, axis, keepdim, skip_nan):
    """Return the median and its position along one axis."""
    ordered = x
    floating = x.dtype.is_floating_point
    if floating:
        nan = op.IsNaN(x)
        ordered = op.Where(nan, float("inf"), x)
    values, places = in_order(op, ordered, axis)
    if floating and skip_nan:
        numbers = op.ReduceSum(op.cast(op.Not(nan), torch.int64), [axis], keepdims=1)
        middle = op.Div(op.Sub(op.Max(numbers, 1), 1), 2)
        value, place = (op.GatherElements(v, middle, axis=axis) for v in (values, places))
        value = op.Where(op.Equal(numbers, 0), float("nan"), value)
    else:
        middle = op.constant([(x.shape[axis] - 1) // 2])
        value, place = (op.Gather(v, middle, axis=axis) for v in (values, places))
        if floating:
            some = op.ReduceMax(nan, [axis], keepdims=1)
            value = op.Where(some, float("nan"), value)
            first = op.ArgMax(op.cast(nan, torch.int32), axis=axis, keepdims=1)
            place = op.Where(some, first, place)
    return (value, place) if keepdim else (op.Squeeze(value, [axis]), op.Squeeze(place, [axis]))


def _middle(skip_nan):
    @scalars_too
    def along(op, input, dim, keepdim=False):
        return _median(op, input, one_axis(dim, input.rank), keepdim, skip_nan)

    def convert(op, input, dim=None, keepdim=False):
        if dim is None:
            return _median(op, _flat(op, input), 0, False, skip_nan)[0]
        return along(op, input, dim, keepdim)

    return convert


median = converter("torch.median", cases=ONE_AXIS)(_middle(False))
nanmedian = converter("torch.nanmedian", cases=ONE_AXIS)(_middle(True))


@converter("torch.mode", cases=[case("int64[n,5]<3"), case("int64[n,5]<3", 0, True)])
@scalars_too
def mode(op, input, dim=-1, keepdim=False):
    """Return the most frequent number, the smallest of several, and its last position."""
    axis = one_axis(dim, input.rank)
    rows = moved(op, input, axis, input.rank - 1)
    values, _ = in_order(op, rows, input.rank - 1)
    # The last element of a run of equal ones is furthest from its first.
    behind = op.Sub(counted(op, input.shape[axis]), places(op, values, values, False, torch.int64))
    longest = op.ArgMax(behind, axis=input.rank - 1, keepdims=1)
    value = op.GatherElements(values, longest, axis=input.rank - 1)
    value = moved(op, value, input.rank - 1, axis)
    here = op.cast(op.Equal(input, value), torch.int64)
    place = op.ArgMax(here, axis=axis, keepdims=1, select_last_index=1)
    return (value, place) if keepdim else (op.Squeeze(value, [axis]), op.Squeeze(place, [axis]))


# Quantiles.


def _quantile(skip_nan):
    def convert(op, input, q, dim=None, keepdim=False, *, interpolation="linear"):
        single = not hasattr(q, "rank") or q.rank == 0
        fractions = op.Reshape(op.cast(q, input.dtype), [-1])
        x = input if input.rank and dim is not None else _flat(op, input)
        axis = 0 if dim is None else one_axis(dim, x.rank)
        x = moved(op, x, axis, x.rank - 1)
        y = _at_fractions(op, x, fractions, interpolation, skip_nan)
        y = moved(op, y, y.rank - 1, 0)
        if keepdim and input.rank:
            every = list(range(1, input.rank + 1))
            y = op.Unsqueeze(y, every if dim is None else [axis + 1])
        return op.Squeeze(y, [0]) if single else y

    return convert


def _at_fractions(op, x, fractions, interpolation, skip_nan):
    """Return the numbers at some fractions of the way through the sorted last axis."""
    axis = x.rank - 1
    nan = op.IsNaN(x)
    ordered, _ = in_order(op, op.Where(nan, float("inf"), x), axis)
    if skip_nan:
        count = op.ReduceSum(op.cast(op.Not(nan), x.dtype), [axis], keepdims=1)
        missing = op.Equal(count, 0)
    else:
        count = op.constant([x.shape[axis]], x.dtype)
        missing = op.ReduceMax(nan, [axis], keepdims=1)
    rank = op.Mul(fractions, op.Max(op.Sub(count, 1), 0))
    below, above = op.Floor(rank), op.Ceil(rank)
    pick = {"lower": below, "higher": above, "nearest": op.Round(rank)}.get(interpolation)
    y = _ranked(op, ordered, below if pick is None else pick)
    if pick is None:
        other = _ranked(op, ordered, above)
        part = 0.5 if interpolation == "midpoint" else op.Sub(rank, below)
        y = between(op, y, other, op.cast(part, y.dtype))
    return op.Where(missing, float("nan"), y)


def _ranked(op, ordered, rank):
    index = op.cast(rank, torch.int64)
    wanted = op.Expand(index, op.sizes([*ordered.shape[:-1], index.shape[-1]]))
    return op.GatherElements(ordered, wanted, axis=ordered.rank - 1)


quantile = converter(
    "torch.quantile", cases=[case("float32[n,5]", 0.3), case("float32[n,5]", 0.3, 1)]
)(_quantile(False))
nanquantile = converter("torch.nanquantile", cases=[case("float32[n,5]", 0.3, 1)])(_quantile(True))


# Histograms.


@converter("torch.histc", cases=[case("float32[n]", 4, -1, 1, opsets=ADDS),
                                 case("float32[n]", 4, opsets=ADDS)])  # fmt: skip
@rounded_once
def histc(op, input, bins=100, min=0, max=0):
    x = _flat(op, input)
    low, high = op.constant(min, x.dtype), op.constant(max, x.dtype)
    if min == max:
        low, high = op.ReduceMin(x, [0], keepdims=0), op.ReduceMax(x, [0], keepdims=0)
        same = op.cast(op.Equal(low, high), x.dtype)
        low, high = op.Sub(low, same), op.Add(high, same)
    at = op.Div(op.Mul(op.Sub(x, low), bins), op.Sub(high, low))
    place = op.Min(op.cast(op.Floor(at), torch.int64), op.constant(bins - 1))
    inside = op.And(op.GreaterOrEqual(x, low), op.LessOrEqual(x, high))
    place = op.Where(inside, place, bins)  # an extra bin for numbers outside
    ones = op.Expand(op.constant(1, x.dtype), op.sizes(x.shape))
    empty = op.Expand(op.constant(0, x.dtype), op.sizes([bins + 1]))
    counts = op.ScatterElements(empty, place, ones, axis=0, reduction="add")
    return op.Slice(counts, [0], op.sizes([bins]), [0])


@converter("torch.histogram", cases=[
    case("float32[n,3]", 4, range=(-1.0, 1.0), opsets=ADDS),
    case("float32[n,3]", 4, weight="float32[n,3]", density=True, opsets=ADDS),
    case("float32[n,3]", lambda: torch.tensor([-1.0, -0.5, 0.0, 2.0]), opsets=ADDS),
])  # fmt: skip
def histogram(op, input, bins, *, range=None, weight=None, density=False):
    x = _flat(op, input)
    edges = _edges(op, x, bins, range) if isinstance(bins, int) else bins
    count = bins if isinstance(bins, int) else op.Sub(op.Shape(bins), 1)
    place = op.Sub(places(op, edges, x, True, torch.int64), 1)
    last = op.Gather(edges, [-1])
    place = op.Where(op.Equal(x, last), op.Sub(count, 1), place)  # the last bin includes both ends
    outside = op.Or(op.Less(x, op.Gather(edges, [0])), op.Not(op.LessOrEqual(x, last)))
    place = op.Where(outside, count, place)  # an extra bin
    each = op.Expand(op.constant(1, x.dtype), op.Shape(x)) if weight is None else _flat(op, weight)
    empty = op.Expand(op.constant(0, x.dtype), op.Reshape(op.Add(count, 1), [1]))
    sums = op.ScatterElements(empty, place, each, axis=0, reduction="add")
    sums = op.Slice(sums, [0], op.Reshape(count, [1]), [0])
    if density:
        widths = op.Sub(op.Slice(edges, [1], [2**62], [0]), op.Slice(edges, [0], [-1], [0]))
        sums = op.Div(op.Div(sums, op.ReduceSum(sums, [0], keepdims=1)), widths)
    return sums, edges


def _edges(op, x, bins, range):
    """Return the edges of equal bins, between two numbers or over the range of the data."""
    if any(type(n) is int and n == 0 for n in x.shape):
        range = range or (0.0, 1.0)
    if range is not None:
        return op.constant(torch.linspace(*range, bins + 1, dtype=x.dtype))
    low, high = op.ReduceMin(x, [0], keepdims=1), op.ReduceMax(x, [0], keepdims=1)
    half = op.Mul(op.cast(op.Equal(low, high), x.dtype), 0.5)
    low, high = op.Sub(low, half), op.Add(high, half)
    step = op.Div(op.Sub(high, low), bins)
    up = torch.arange(bins + 1, dtype=x.dtype)
    # Count from both ends, as torch.linspace does: the last edge is the largest element itself.
    first = op.Add(low, op.Mul(step, op.constant(up)))
    second = op.Sub(high, op.Mul(step, op.constant(up.flip(0))))
    return op.Where(op.constant(up < (bins + 1) // 2), first, second)


@converter("torch.bincount", cases=[case("int64[n]<5", minlength=5, opsets=ADDS)])
def bincount(op, input, weights=None, minlength=0):
    one = op.constant(1) if weights is None else op.cast(weights, op.result.dtype)
    input = op.cast(input, torch.int64)
    size = op.Max(op.Add(op.ReduceMax(op.Pad(input, [0, 1], -1), [0], keepdims=1), 1), [minlength])
    ones = op.Expand(one, op.sizes(input.shape))
    return op.ScatterElements(op.Expand(op.constant(0, ones.dtype), size), input, ones, axis=0,
                              reduction="add")  # fmt: skip
