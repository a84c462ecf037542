"""Sorting and its uses: the largest few, the k-th, unique values, insertion points."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import is_value, loop, one_axis, scalars_too


def in_order(op, x, axis, descending=False):
    """Sort elements along an axis and return their old positions; equal ones keep their order."""
    return op.TopK(x, op.sizes([x.shape[axis]]), axis=axis, largest=int(descending), outputs=2)


@converter("torch.sort", cases=[case("float32[n,5]"), case("float32[n,5]", 0, True)])
@scalars_too
def sort(op, input, dim=-1, descending=False, stable=False):
    return in_order(op, input, one_axis(dim, input.rank), descending)


@converter("torch.argsort", cases=[case("float32[n,5]"), case("float32[n,5]", 0, True)])
@scalars_too
def argsort(op, input, dim=-1, descending=False, stable=False):
    return in_order(op, input, one_axis(dim, input.rank), descending)[1]


@converter("torch.msort", cases=[case("float32[n,5]")])
@scalars_too
def msort(op, input):
    return in_order(op, input, 0)[0]


@converter("torch.topk", cases=[case("float32[n,5]", 2), case("float32[n,5]", 2, 1, False)])
@scalars_too
def topk(op, input, k, dim=-1, largest=True, sorted=True):
    order = {} if sorted else {"sorted": 0}  # 1 is the default
    return op.TopK(input, op.sizes([k]), axis=one_axis(dim, input.rank), largest=int(largest),
                   outputs=2, **order)  # fmt: skip


@converter("torch.kthvalue", cases=[case("float32[n,5]", 2)])
@scalars_too
def kthvalue(op, input, k, dim=-1, keepdim=False):
    axis = one_axis(dim, input.rank)
    picked = op.TopK(input, op.sizes([k]), axis=axis, largest=0, outputs=2)
    last = op.constant([k - 1] if keepdim else k - 1)
    return tuple(op.Gather(v, last, axis=axis) for v in picked)


# Unique values.


def _as_asked(op, values, places, counts):
    """Empty the positions and the counts that were not asked for, as PyTorch does."""
    nothing = op.constant(torch.empty(0, dtype=torch.int64))
    _, wants_places, wants_counts = op.result
    return (
        values,
        nothing if wants_places.shape == (0,) else places,
        nothing if wants_counts.shape == (0,) else counts,
    )


def _unique(op, input, dim):
    """Return the sorted unique values, the index of each element among them, and their counts."""
    along = {} if dim is None else {"axis": one_axis(dim, input.rank)}
    values, _, places, counts = op.Unique(input, sorted=1, outputs=4, **along)
    return values, places if along else op.Reshape(places, op.sizes(input.shape)), counts


def _wanted(values, places, counts, return_inverse, return_counts):
    more = [places] * return_inverse + [counts] * return_counts
    return (values, *more) if more else values


@converter(
    "torch.unique",
    cases=[
        case("int64[n]<5"),
        case("int64[n,2]<2", return_inverse=True, return_counts=True, dim=0),
    ],
)
def unique(op, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return _wanted(*_unique(op, input, dim), return_inverse, return_counts)


@converter("torch.ops.aten.unique_dim", cases=[case("int64[n,2]<2", 0, return_counts=True)])
def unique_dim(op, input, dim, *args, **kwargs):
    return _as_asked(op, *_unique(op, input, dim))


@converter("torch.ops.aten._unique2", cases=[case("int64[n]<5", return_counts=True)])
def unique_flat(op, input, *args, **kwargs):
    return _as_asked(op, *_unique(op, input, None))


def _runs(op, input, dim):
    """Find runs of equal elements: one starts at an element that differs from the one before."""
    axis = 0 if dim is None else one_axis(dim, input.rank)
    x = op.Reshape(input, [-1]) if dim is None else input
    size = x.shape[axis]
    later, earlier = op.Slice(x, [1], [2**62], [axis]), op.Slice(x, [0], [-1], [axis])
    differs = op.cast(op.Not(op.Equal(later, earlier)), torch.int64)
    others = [a for a in range(x.rank) if a != axis]
    differs = op.ReduceMax(differs, others, keepdims=0) if others else differs
    starts = op.Concat(op.Expand(op.constant(1), op.sizes([min(size, 1)])), differs, axis=0)
    at = op.Reshape(op.NonZero(starts), [-1])
    ends = op.Concat(op.Slice(at, [1], [2**62], [0]), op.sizes([size]), axis=0)
    places = op.Sub(op.CumSum(starts, op.constant(0)), 1)
    if dim is None:
        places = op.Reshape(places, op.sizes(input.shape))
    return op.Gather(x, at, axis=axis), places, op.Sub(ends, at)


@converter("torch.unique_consecutive", cases=[case("int64[n]<2", return_counts=True)])
def unique_consecutive(op, input, return_inverse=False, return_counts=False, dim=None):
    return _wanted(*_runs(op, input, dim), return_inverse, return_counts)


@converter("torch.ops.aten.unique_dim_consecutive", cases=[case("int64[n,2]<2", 0, True, True)])
def unique_dim_consecutive(op, input, dim, *args, **kwargs):
    return _as_asked(op, *_runs(op, input, dim))


@converter("torch.ops.aten.unique_consecutive", cases=[case("int64[n]<2", True, True)])
def unique_consecutive_flat(op, input, return_inverse=False, return_counts=False, dim=None):
    return _as_asked(op, *_runs(op, input, dim))


@converter("torch.nonzero", "torch.argwhere", cases=[case("float32[n,3]")])
def nonzero(op, input, *, as_tuple=False):
    x = input if input.rank else op.Reshape(input, [1])
    found = op.NonZero(x)
    if isinstance(op.result, tuple):
        return tuple(op.Reshape(f, [-1]) for f in _rows(op, found, x.rank))
    if input.rank:
        return op.Transpose(found, perm=[1, 0])
    # A scalar has no axes: the result has one empty row if it is nonzero, else none.
    return op.Slice(op.Transpose(found, perm=[1, 0]), [0], [0], [1])


def _rows(op, x, count):
    return [x] if count == 1 else op.Split(x, [1] * count, axis=0, outputs=count)


@converter("torch.nonzero_static", cases=[case("float32[n,3]", size=4)])
def nonzero_static(op, input, *, size, fill_value=-1):
    rows = nonzero(op, input)
    padded = op.Pad(rows, op.sizes([0, 0, size, 0]), op.constant(fill_value, torch.int64))
    return op.Slice(padded, [0], op.sizes([size]), [0])


# Insertion points.


def places(op, bounds, x, right, dtype):
    """Count the bounds that come before each of x; bounds are one list, or one for each row of x.

    Searches by bisection as PyTorch does, so that unordered bounds give the same places, too.
    """
    before = op.Greater if right else op.GreaterOrEqual
    if _short_table(op, bounds):
        below = op.Not(before(bounds, op.Unsqueeze(x, [-1])))
        return op.ReduceSum(op.cast(below, dtype), [below.rank - 1], keepdims=0)
    size = op.Shape(bounds, start=bounds.rank - 1)
    one = op.Expand(op.constant(0, bounds.dtype), op.sizes([*bounds.shape[:-1], 1]))
    bounds = op.Concat(bounds, one, axis=-1)  # so that a position past the end can be read
    first = op.Expand(op.constant(0), op.Shape(x))
    last = op.Expand(op.Reshape(size, []), op.Shape(x))

    def step(_, first, last):
        middle = op.Div(op.Add(first, last), 2)
        looked_at = (
            op.Gather(bounds, middle)
            if bounds.rank == 1
            else op.GatherElements(bounds, middle, axis=-1)
        )
        below = op.And(op.Not(before(looked_at, x)), op.Less(first, last))
        return op.Where(below, op.Add(middle, 1), first), op.Where(below, last, middle)

    # As many bisections as the number of bounds has binary digits.
    digits = op.cast(op.GreaterOrEqual(size, op.constant(2 ** torch.arange(63))), torch.int64)
    first, _ = loop(op, op.ReduceSum(digits, [0], keepdims=0), [first, last], step)
    return op.cast(first, dtype)


def _short_table(op, bounds):
    """Return whether bounds are few, constant and sorted: comparing with all of them is faster."""
    table = op.contents(bounds) if bounds.rank == 1 else None
    return table is not None and len(table) <= 16 and bool((table[1:] >= table[:-1]).all())


def _sorted():
    return torch.tensor([-1.5, -0.5, 0.25, 0.75, 2.0])


@converter("torch.searchsorted",
           cases=[case(_sorted, "float32[n]"),
                  case(lambda: torch.tensor([[0.1, 0.5, 0.9], [-1.0, 0.0, 2.0]]), "float32[2,n]",
                       right=True)])  # fmt: skip
def searchsorted(op, input, values, *, out_int32=False, right=False, side=None, sorter=None):
    dtype = op.result.dtype
    bounds = input if sorter is None else op.GatherElements(input, sorter, axis=-1)
    x = values if is_value(values) else op.constant(values, input.dtype)
    kind = torch.promote_types(bounds.dtype, x.dtype)
    bounds, x = op.cast(bounds, kind), op.cast(x, kind)
    return places(op, bounds, x, right or side == "right", dtype)


@converter("torch.bucketize", cases=[case("float32[n,3]", _sorted)])
def bucketize(op, input, boundaries, *, out_int32=False, right=False):
    return searchsorted(op, boundaries, input, out_int32=out_int32, right=right)


@converter("torch.isin", cases=[case("int64[n,3]<9", "int64[4]<9")])
def isin(op, elements, test_elements, *, assume_unique=False, invert=False):
    a, b = (x if is_value(x) else op.constant(x) for x in (elements, test_elements))
    kind = torch.promote_types(a.dtype, b.dtype)
    inside = _among(op, op.cast(a, kind), op.Reshape(op.cast(b, kind), [-1]))
    return op.Not(inside) if invert else inside


def _among(op, x, known):
    """Return whether each of x equals one of a list, namely the first that is no smaller."""
    if type(known.shape[0]) is int and known.shape[0] <= 16:  # faster, one by one
        # A zero at the end, so that a search in an empty list finds nothing.
        equal = op.cast(op.Equal(op.Unsqueeze(x, [-1]), known), torch.int64)
        equal = op.Pad(equal, [0] * (2 * x.rank + 1) + [1])
        return op.cast(op.ReduceMax(equal, [x.rank], keepdims=0), torch.bool)
    if known.dtype.is_floating_point:  # NaN equals nothing and cannot be sorted
        known = op.Compress(known, op.Not(op.IsNaN(known)), axis=0)
    ordered, _ = op.TopK(known, op.Shape(known), axis=0, largest=0, outputs=2)
    place = places(op, ordered, x, False, torch.int64)
    there = op.Less(place, op.Reshape(op.Shape(known), []))
    ordered = op.Concat(ordered, op.constant([0], known.dtype), axis=0)
    return op.And(there, op.Equal(op.Gather(ordered, place), x))


@converter("torch.repeat_interleave",
           cases=[case("float32[n,3]", 2, 1), case("float32[n,3]", 2), case("float32[n,3]", 0, 1), case("float32[4,n]",
           lambda: torch.tensor([1, 0, 2, 3]), 0, opsets=(16, 20, 26))])  # fmt: skip
def repeat_interleave(op, input, repeats=None, dim=None, *, output_size=None):
    if repeats is None:
        return op.cast(_repeated_places(op, input), op.result.dtype)
    if dim is None:
        input, dim = op.Reshape(input, [-1]), 0
    if input.rank == 0:
        input = op.Reshape(input, [1])
    axis = one_axis(dim, input.rank)
    shape = list(input.shape)
    if type(repeats) is int and repeats == 0:
        return op.Slice(input, [0], [0], [axis])
    if not hasattr(repeats, "rank"):
        wide = op.Expand(op.Unsqueeze(input, [axis + 1]),
                         op.sizes([*shape[: axis + 1], repeats, *shape[axis + 1 :]]))  # fmt: skip
        return op.Reshape(
            wide, op.sizes([*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]])
        )
    repeats = op.Expand(repeats, op.sizes([shape[axis]]))
    return op.Gather(input, _repeated_places(op, repeats), axis=axis)


def _repeated_places(op, repeats):
    """Repeat 0 repeats[0] times, 1 repeats[1] times...: count the ends passed so far."""
    ends = op.CumSum(op.cast(repeats, torch.int64), op.constant(0))
    total = op.ReduceSum(op.cast(repeats, torch.int64), [0], keepdims=0)
    marks = op.Expand(op.constant(0), op.Reshape(op.Add(total, 1), [1]))
    ones = op.Expand(op.constant(1), op.sizes(ends.shape))
    passed = op.CumSum(
        op.ScatterElements(marks, ends, ones, axis=0, reduction="add"), op.constant(0)
    )
    return op.Slice(passed, [0], [-1], [0])
