"""Writing to positions that tensors hold: index_put, index_copy, scatter and the rest."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import along, counted, highest, lowest, one_axis, reshaped, scalars_too
from .arithmetic import floor_divide
from .indexing import getitem
from .shape import in_memory, strided_places

ADDS = (16, 20, 26)  # since opset 16, scattered elements can be added

_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
               "amin": "min", "max": "max", "min": "min"}  # fmt: skip


@converter("torch.index_put", "torch.ops.aten._unsafe_index_put", cases=[
    case("float32[5,n]", [lambda: torch.tensor([3, 0, 2])], "float32[3,n]"),
    case("float32[4,n,5]", ["int64[3]<4", "int64[3]<2"], "float32[3,5]", True, opsets=ADDS),
])  # fmt: skip
def index_put(op, input, indices, values, accumulate=False):
    """Write values by an index; indexing a tensor of element numbers gives their positions."""
    index = tuple(slice(None) if i is None else i for i in indices)
    count = op.Reshape(op.Range(0, op.constant(input.numel()), 1), op.sizes(input.shape))
    places = getitem(op, count, index)
    values = op.Expand(op.cast(values, input.dtype), op.Shape(places))
    flat = op.ScatterElements(
        op.Reshape(input, [-1]), op.Reshape(places, [-1]), op.Reshape(values, [-1]), axis=0,
        reduction="add" if accumulate else None,
    )  # fmt: skip
    return op.Reshape(flat, op.sizes(input.shape))


@converter("torch.ops.aten._index_put_impl", cases=[
    case("float32[5,n]", [lambda: torch.tensor([3, 0, 2])], "float32[3,n]"),
])  # fmt: skip
def index_put_impl(op, self, indices, values, accumulate=False, unsafe=False):
    return index_put(op, self, indices, values, accumulate)


def _along(op, index, dim, source):
    """Repeat a list of positions on one axis over the other axes of `source`."""
    axis = one_axis(dim, source.rank)
    shape = [1] * source.rank
    shape[axis] = -1
    return axis, op.Expand(op.Reshape(op.cast(index, torch.int64), shape), op.sizes(source.shape))


@converter("torch.index_copy",
           cases=[case("float32[n,5]", 1, lambda: torch.tensor([3, 0]), "float32[n,2]")])  # fmt: skip
@scalars_too
def index_copy(op, input, dim, index, source):
    axis, index = _along(op, index, dim, source)
    return op.ScatterElements(input, index, source, axis=axis)


@converter("torch.index_add",
           cases=[case("float32[n,5]", 1, "int64[2]<5", "float32[n,2]", alpha=2,
                       opsets=ADDS)])  # fmt: skip
@scalars_too
def index_add(op, input, dim, index, source, *, alpha=1):
    axis, index = _along(op, index, dim, source)
    source = source if op.same(alpha, 1) else op.Mul(source, op.constant(alpha, source.dtype))
    return op.ScatterElements(input, index, source, axis=axis, reduction="add")


@converter("torch.index_reduce",
           cases=[case("float32[n,5]", 1, "int64[2]<5", "float32[n,2]", "amax",
                       opsets=(18, 20, 26))])  # fmt: skip
@scalars_too
def index_reduce(op, input, dim, index, source, reduce, *, include_self=True):
    axis, index = _along(op, index, dim, source)
    return _reduced(op, input, axis, index, source, reduce, include_self)


@converter("torch.index_fill", cases=[case("float32[n,5]", 1, "int64[2]<5", 3.0)])
@scalars_too
def index_fill(op, input, dim, index, value):
    axis = one_axis(dim, input.rank)
    shape = list(input.shape)
    shape[axis] = index.shape[0] if index.rank else 1
    if hasattr(value, "rank"):
        value = op.Reshape(value, [1])
    source = op.Expand(op.cast(value, input.dtype), op.sizes(shape))
    _, index = _along(op, index, dim, source)
    return op.ScatterElements(input, index, source, axis=axis)


def _source(op, input, index, src):
    """Return the index, and the source in its shape: a repeated number, or part of a tensor."""
    if input.rank and not index.rank:
        index = op.Unsqueeze(index, [0])
    if not hasattr(src, "rank") or (src.rank == 0 and index.rank):
        return index, op.Expand(op.cast(src, input.dtype), op.sizes(index.shape))
    src = op.cast(src, input.dtype)
    if not src.rank or op.same(src.shape, index.shape):
        return index, src
    return index, op.Slice(src, [0] * src.rank, op.sizes(index.shape), list(range(src.rank)))


@converter("torch.scatter", cases=[case("float32[n,5]", 1, "int64[n,1]<1", 2.0)])
@scalars_too
def scatter(op, input, dim, index, src=None, *, value=None, reduce=None):
    index, src = _source(op, input, index, value if src is None else src)
    return op.ScatterElements(
        input, index, src, axis=one_axis(dim, input.rank),
        reduction=None if reduce is None else _REDUCTIONS[reduce],
    )  # fmt: skip


@converter("torch.scatter_add",
           cases=[case("float32[n,5]", 1, "int64[n,3]<5", "float32[n,3]",
                       opsets=ADDS),
                  case("float32[n]", 0, lambda: torch.tensor(0), lambda: torch.tensor(1.5),
                       opsets=ADDS)])  # fmt: skip
@scalars_too
def scatter_add(op, input, dim, index, src):
    index, src = _source(op, input, index, src)
    return op.ScatterElements(input, index, src, axis=one_axis(dim, input.rank), reduction="add")


@converter("torch.scatter_reduce",
           cases=[case("float32[n,5]", 1, "int64[n,3]<5", "float32[n,3]", "amax",
                       opsets=(18, 20, 26)),
                  case("float32[n,5]", 1, "int64[n,3]<5", "float32[n,3]", "min",
                       opsets=(18, 20, 26)),
                  case("float32[n,5]", 1, "int64[n,3]<5", "float32[n,3]", "mean",
                       opsets=ADDS)])  # fmt: skip
@scalars_too
def scatter_reduce(op, input, dim, index, src, reduce, *, include_self=True):
    index, src = _source(op, input, index, src)
    return _reduced(op, input, one_axis(dim, input.rank), index, src, reduce, include_self)


def _reduced(op, input, axis, index, src, reduce, include_self):
    """Reduce the elements scattered to each place, with or without the one already there."""
    kind = _REDUCTIONS["sum" if reduce == "mean" else reduce]
    start = input
    if not include_self:
        neutral = op.Expand(
            op.constant(_neutral(kind, input.dtype), input.dtype), op.sizes(index.shape)
        )
        start = op.ScatterElements(input, index, neutral, axis=axis)
    y = op.ScatterElements(start, index, src, axis=axis, reduction=kind)
    if kind in ("max", "min") and input.dtype.is_floating_point:
        y = op.Where(_meets_nan(op, start, index, src, axis), math.nan, y)
    if reduce != "mean":
        return y
    ones = op.Expand(op.constant(1, input.dtype), op.sizes(index.shape))
    before = op.Expand(op.constant(int(include_self), input.dtype), op.sizes(input.shape))
    count = op.ScatterElements(before, index, ones, axis=axis, reduction="add")
    return floor_divide(op, y, op.Max(count, 1)) if not y.dtype.is_floating_point else op.Div(
        y, op.Max(count, 1))  # fmt: skip


def _meets_nan(op, start, index, src, axis):
    """Return where NaN is scattered or is there already: onnxruntime's max and min may drop it."""
    there, scattered = (op.cast(op.IsNaN(x), torch.int32) for x in (start, src))
    found = op.ScatterElements(there, index, scattered, axis=axis, reduction="max")
    return op.cast(found, torch.bool)


def _neutral(kind, dtype):
    if kind in ("add", "mul"):
        return 0 if kind == "add" else 1
    return lowest(dtype) if kind == "max" else highest(dtype)


@converter("torch.put",
           cases=[case("float32[n,5]", lambda: torch.tensor([3, -1]), "float32[2]"),
                  case("float32[n,5]", "int64[3]<5", "float32[3]", True, opsets=ADDS)])  # fmt: skip
def put(op, input, index, source, accumulate=False):
    flat = op.ScatterElements(
        op.Reshape(input, [-1]), _counted_from_front(op, op.Reshape(index, [-1]), input.numel()),
        op.Reshape(source, [-1]), axis=0, reduction="add" if accumulate else None,
    )  # fmt: skip
    return op.Reshape(flat, op.sizes(input.shape))


def _counted_from_front(op, index, size):
    return op.Where(op.Less(index, 0), op.Add(index, op.constant(size)), index)


@converter("torch.masked_scatter", cases=[case("float32[n,3]", "bool[n,3]", "float32[99]")])
def masked_scatter(op, input, mask, source):
    """Write the elements of `source`, in order, where the mask is True."""
    wide = op.Where(mask, input, input)
    mask = op.Expand(mask, op.sizes(wide.shape))
    if not wide.rank:
        return op.Where(
            mask, op.Reshape(op.Slice(op.Reshape(source, [-1]), [0], [1], [0]), []), wide
        )
    places = op.Transpose(op.NonZero(mask), perm=[1, 0])
    count = op.Shape(places, start=0, end=1)
    return op.ScatterND(wide, places, op.Slice(op.Reshape(source, [-1]), [0], count, [0]))


@converter("torch.select_scatter", cases=[case("float32[n,5]", "float32[n]", 1, 2)])
def select_scatter(op, input, src, dim, index):
    axis = one_axis(dim, input.rank)
    size = input.shape[axis]
    place = index % size if type(index) is int and index < 0 else index
    here = op.Equal(along(op, counted(op, size), axis, input.rank), op.constant(place))
    return op.Where(here, op.Unsqueeze(op.cast(src, input.dtype), [axis]), input)


@converter("torch.slice_scatter", cases=[case("float32[n,5]", "float32[n,2]", 1, 1, 3)])
def slice_scatter(op, input, src, dim=0, start=None, end=None, step=1):
    axis = one_axis(dim, input.rank)
    index = (*[slice(None)] * axis, slice(start, end, step))
    places = getitem(op, counted(op, input.shape[axis]), index[-1])
    _, at = _along(op, places, axis, src)
    return op.ScatterElements(input, at, op.cast(src, input.dtype), axis=axis)


@converter("torch.as_strided_scatter",
           cases=[case("float32[4,5]", "float32[2,3]", [2, 3], [5, 1], 6),
                  case("float32[n,5]", "float32[2,3]", [2, 3], [1, 2])])  # fmt: skip
def as_strided_scatter(op, input, src, size, stride, storage_offset=None):
    memory, order = in_memory(op, input)
    at = op.Reshape(strided_places(op, size, stride, storage_offset), [-1])
    values = op.Reshape(op.cast(src, input.dtype), [-1])
    memory = op.ScatterElements(memory, at, values, axis=0)
    y = reshaped(op, memory, [input.shape[a] for a in order])
    return op.Transpose(y, perm=[order.index(a) for a in range(input.rank)])


@converter("torch.ops.aten._unsafe_masked_index",
           cases=[case("float32[5]", "bool[n]", ["int64[n]<5"], 0.5),
                  case("float32[5,2]", "bool[n,1]", ["int64[n]<5"], 0.5),
                  case("float32[2,n,5]", "bool[3]", [None, None, "int64[3]<9"], 0.5)])  # fmt: skip
def unsafe_masked_index(op, self, mask, indices, fill):
    """Pick elements where a mask is true; elsewhere, positions may lie outside the tensor."""
    index = tuple(slice(None) if i is None else i for i in _within(op, self, indices))
    picked = getitem(op, self, index)
    return op.Where(mask, picked, op.cast(fill, self.dtype))


def _within(op, x, indices):
    """Clip positions on the first axes of x to its ends."""
    ends = [(op.constant(-n), op.constant(n - 1)) for n in x.shape[: len(indices)]]
    return [
        i if i is None else op.Clip(op.cast(i, torch.int64), low, high)
        for i, (low, high) in zip(indices, ends)
    ]


@converter("torch.ops.aten._unsafe_masked_index_put_accumulate",
           cases=[case("float32[5]", "bool[n]", ["int64[n]<5"], "float32[n]", opsets=ADDS),
                  case("float32[5,2]", "bool[n,1]", ["int64[n]<5"], "float32[n,2]", opsets=ADDS),
                  case("float32[2,5]", "bool[3]", [None, "int64[3]<9"], "float32[2,3]", opsets=ADDS)])  # fmt: skip
def unsafe_masked_index_put_accumulate(op, self, mask, indices, values):
    values = op.Where(mask, values, 0)
    return index_put(op, self, _within(op, self, indices), values, True)


@converter("torch.Tensor.fill_diagonal_", cases=[case("float32[n,4]", 1.5)])
def fill_diagonal_(op, self, fill_value, wrap=False):
    if self.rank != 2 or wrap:
        return NotImplemented
    here = op.cast(op.EyeLike(op.Expand(op.constant(0), op.sizes(self.shape))), torch.bool)
    new = op.Where(here, op.cast(fill_value, self.dtype), self)
    op.assign(self, new)
    return new
