"""Reading and writing by index, in all the forms of `x[...]`, and gather, scatter and friends."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import one_axis

_END = 2**62


def _is_tensor(index):
    return hasattr(index, "dtype") and hasattr(index, "rank")


def _expanded(op, x, index):
    """The index as one entry per axis of x, `...` filled in, None kept apart."""
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    if isinstance(index, list) and not any(
        _is_tensor(i) or isinstance(i, (slice, list, type(None), type(Ellipsis))) for i in index
    ):
        parts = [index]  # a plain list of numbers is one index, not several
    used = 0
    for part in parts:
        if part is None or part is Ellipsis or isinstance(part, bool):
            continue
        used += part.rank if _is_tensor(part) and part.dtype in (torch.bool, torch.uint8) else 1
    filled = []
    seen = False
    for part in parts:
        if part is Ellipsis and not seen:
            filled.extend([slice(None)] * (x.rank - used))
            seen = True
        else:
            filled.append(part)
    if not seen:
        filled.extend([slice(None)] * (x.rank - used))
    return filled


def _plan(op, x, index):
    """Splits an index into slices (axis -> slice), axes to drop or add, and tensors by axis."""
    slices, drop, tensors, layout = {}, [], {}, []
    axis = 0
    for part in _expanded(op, x, index):
        if part is None:
            layout.append("new")
            continue
        if isinstance(part, bool):
            return None
        if isinstance(part, slice):
            if part != slice(None):
                slices[axis] = part
            layout.append(axis)
        elif isinstance(part, int):
            drop.append(axis)
            slices[axis] = part
        elif isinstance(part, list):
            tensors[axis] = op.constant(part)
            layout.append(axis)
        elif part.dtype in (torch.bool, torch.uint8):
            rows = op.NonZero(part)
            if part.rank == 1:
                tensors[axis] = op.Reshape(rows, [-1])
                layout.append(axis)
            else:
                for i, row in enumerate(op.Split(rows, [1] * part.rank, axis=0, outputs=part.rank)):
                    tensors[axis + i] = op.Reshape(row, [-1])
                    layout.append(axis + i)
                axis += part.rank - 1
        else:
            tensors[axis] = op.cast(part, torch.int64)
            layout.append(axis)
        axis += 1
    return slices, drop, tensors, layout


def _start_end(part, size):
    step = 1 if part.step is None else part.step
    start = 0 if part.start is None else part.start
    end = _END if part.stop is None else part.stop
    return start, end, step


def _number(op, n):
    """A bound of a slice: an int, a size, or a tensor that holds one."""
    return op.Reshape(op.cast(n, torch.int64), [1]) if _is_tensor(n) else n


def _bounds(op, numbers):
    if not any(_is_tensor(n) for n in numbers):
        return op.sizes(numbers)
    parts = [n if _is_tensor(n) else op.sizes([n]) for n in (_number(op, n) for n in numbers)]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


def _sliced(op, x, slices, drop):
    """All slices in one node, then the axes that an int picked are dropped."""
    if len(slices) == 1 and len(drop) == 1:
        (axis,) = drop
        return op.Gather(x, op.constant(slices[axis]), axis=axis)
    if slices:
        starts, ends, steps = [], [], []
        for part in slices.values():
            if isinstance(part, slice):
                start, end, step = _start_end(part, None)
            else:
                start, step = part, 1
                end = _END if type(part) is int and part == -1 else part + 1
            starts.append(start)
            ends.append(end)
            steps.append(step)
        extra = [op.sizes(steps)] if any(type(s) is not int or s != 1 for s in steps) else []
        x = op.Slice(x, _bounds(op, starts), _bounds(op, ends), list(slices), *extra)
    return op.Squeeze(x, drop) if drop else x


@converter(
    "torch.Tensor.__getitem__",
    cases=[
        case("float32[n,5,6]", (slice(None), 1)), case("float32[n,5,6]", (..., slice(1, -1, 2))),
        case("float32[n,5,6]", (0, None, slice(2, None))), case("float32[n,5]", "bool[n,5]"),
        case("float32[n,5]", (slice(None), [0, 2])),
    ],
)  # fmt: skip
def getitem(op, self, index):
    plan = _plan(op, self, index)
    if plan is None:
        return NotImplemented
    slices, drop, tensors, layout = plan
    x = _sliced(op, self, slices, drop)
    if tensors:
        # An int beside tensors is a tensor too: it was dropped above, which is the same unless
        # it stands between them and so moves the result to the front.
        kept = [a for a in range(self.rank) if a not in drop]
        where = {kept.index(a): t for a, t in tensors.items()}
        front = drop and _apart(sorted([*tensors, *drop]))
        x = _gathered(op, x, where, front)
        if "new" in layout:
            return _with_new_axes_beside(op, x, self, layout, tensors, drop)
        return x
    new = [i for i, part in enumerate(layout) if part == "new"]
    return op.Unsqueeze(x, new) if new else x


def _apart(axes):
    return any(b - a > 1 for a, b in zip(axes, axes[1:]))


def _with_new_axes_beside(op, x, self, layout, tensors, drop):
    if _apart(sorted([*tensors, *drop])):
        op.refuse("an index with None and several tensors apart", "index in two steps")
    first = min(i for i, part in enumerate(layout) if part in tensors)
    width = max(t.rank for t in tensors.values())
    axes, position = [], 0
    for i, part in enumerate(layout):
        if part == "new":
            axes.append(position)
            position += 1
        elif part in tensors:
            position += width if i == first else 0
        else:
            position += 1
    return op.Unsqueeze(x, axes)


def _gathered(op, x, tensors, front=False):
    """x indexed by tensors on some of its axes; the others are kept whole."""
    axes = sorted(tensors)
    if len(axes) == 1:
        y = op.Gather(x, tensors[axes[0]], axis=axes[0])
        if front and axes[0]:
            width = tensors[axes[0]].rank
            moved = list(range(axes[0], axes[0] + width))
            y = op.Transpose(y, perm=moved + [a for a in range(y.rank) if a not in moved])
        return y
    rest = [a for a in range(x.rank) if a not in axes]
    if axes != list(range(len(axes))):
        x = op.Transpose(x, perm=axes + rest)
    indices, width = _stacked(op, [_positive(op, tensors[a], x.shape[i]) for i, a in enumerate(axes)])
    y = op.GatherND(x, indices)
    if front or _apart(axes) or axes[0] == 0:
        return y
    # Tensors side by side: their axes stand where the first of them stood.
    lead = axes[0]
    perm = [width + i for i in range(lead)] + list(range(width))
    return op.Transpose(y, perm=perm + list(range(width + lead, y.rank)))


def _positive(op, index, size):
    """GatherND and ScatterND do not all take negative indices: count from the front."""
    if index.is_constant:
        return index if not (index.tensor < 0).any() or type(size) is not int else op.constant(
            torch.where(index.tensor < 0, index.tensor + size, index.tensor)
        )
    return op.Where(op.Less(index, 0), op.Add(index, op.constant(size)), index)


def _stacked(op, tensors):
    """Index tensors broadcast together and joined on a new last axis."""
    shaped = tensors
    if not all(op.same(t.shape, tensors[0].shape) for t in tensors):
        zero = tensors[0]
        for t in tensors[1:]:
            zero = op.Add(zero, t)
        shape = op.Shape(zero)
        shaped = [op.Expand(t, shape) for t in tensors]
        width = zero.rank
    else:
        width = tensors[0].rank
    return op.Concat(*[op.Unsqueeze(t, [-1]) for t in shaped], axis=-1), width


@converter(
    "torch.Tensor.__setitem__",
    cases=[],
)
def setitem(op, self, index, value):
    """The tensor with some of its elements replaced, by scattering to their positions."""
    value = op.cast(value, self.dtype)
    if _is_tensor(index) and index.dtype == torch.bool and value.rank == 0:
        mask = index
        if mask.rank < self.rank:
            mask = op.Unsqueeze(mask, list(range(mask.rank, self.rank)))
        op.assign(self, op.Where(mask, value, self))
        return None
    whole = _whole_axis_write(op, self, index, value)
    if whole is not None:
        op.assign(self, whole)
        return None
    # The same index into a tensor that counts elements says where each value goes.
    count = op.Reshape(op.Range(0, op.constant(self.numel()), 1), op.sizes(self.shape))
    places = getitem(op, count, index)
    if places is NotImplemented:
        return NotImplemented
    while value.rank > places.rank:  # torch drops leading axes of 1 of what is written
        value = op.Squeeze(value, [0])
    value = op.Expand(value, op.Shape(places))
    flat = op.ScatterElements(
        op.Reshape(self, [-1]), op.Reshape(places, [-1]), op.Reshape(value, [-1]), axis=0
    )
    op.assign(self, op.Reshape(flat, op.sizes(self.shape)))
    return None


def _whole_axis_write(op, x, index, value):
    """x[:, a:b] = v with constant bounds is what stands before, v, and what stands after."""
    plan = _plan(op, x, index) if not _is_tensor(index) else None
    if plan is None:
        return None
    slices, drop, tensors, layout = plan
    if tensors or "new" in layout:
        return None
    if not slices:
        return op.Expand(value, op.sizes(x.shape))
    if len(slices) != 1:
        return None
    ((axis, part),) = slices.items()
    size = x.shape[axis]
    if isinstance(part, slice):
        start, end, step = _start_end(part, size)
        if any(type(n) is not int for n in (start, end, step, size)) or step != 1:
            return None
        start, end, _ = slice(start, end).indices(size)
        end = max(end, start)
    elif type(part) is int and type(size) is int:
        start = part % size
        end = start + 1
        if value.rank:
            lead = x.rank - 1 - value.rank
            if lead < 0:
                return None
            value = op.Unsqueeze(value, [axis - lead]) if axis >= lead else value
    else:
        return None
    shape = [*x.shape[:axis], end - start, *x.shape[axis + 1 :]]
    if value.rank > x.rank:
        return None
    middle = op.Expand(value, op.sizes(shape))
    parts = []
    if start > 0:
        parts.append(op.Slice(x, [0], [start], [axis]))
    parts.append(middle)
    if end < size:
        parts.append(op.Slice(x, [end], [size], [axis]))
    return op.Concat(*parts, axis=axis) if len(parts) > 1 else middle


@converter("torch.select", cases=[case("float32[n,5]", 1, 2)])
def select(op, input, dim, index):
    return op.Gather(input, op.constant(index), axis=one_axis(dim, input.rank))


@converter("torch.narrow", cases=[case("float32[n,5]", 1, 1, 2)])
def narrow(op, input, dim, start, length):
    axis = one_axis(dim, input.rank)
    if _is_tensor(start):
        first = op.Reshape(op.cast(start, torch.int64), [1])
        return op.Slice(input, first, op.Add(first, op.sizes([length])), [axis])
    end = start + length
    if type(end) is int and end == 0:
        end = _END
    return op.Slice(input, op.sizes([start]), op.sizes([end]), [axis])


@converter("torch.ops.aten.slice", cases=[])
def slice_(op, input, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * one_axis(dim, input.rank) + [slice(start, end, step)]
    return getitem(op, input, tuple(index))


@converter("torch.index_select", cases=[case("float32[n,5]", 1, "int64[3]<5")])
def index_select(op, input, dim, index):
    return op.Gather(input, index, axis=one_axis(dim, input.rank))


@converter("torch.gather", cases=[case("float32[n,5]", 1, "int64[n,3]<5")])
def gather(op, input, dim, index, *, sparse_grad=False):
    return op.GatherElements(input, index, axis=one_axis(dim, input.rank))


@converter("torch.nn.functional.embedding", cases=[case("int64[n,3]<5", "float32[5,4]")])
def embedding(op, input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
              scale_grad_by_freq=False, sparse=False):  # fmt: skip
    return NotImplemented if max_norm is not None else op.Gather(weight, input)


@converter("torch.embedding", cases=[])
def embedding_operator(op, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return op.Gather(weight, indices)


@converter("torch.Tensor.copy_", cases=[])
def copy_(op, self, src, non_blocking=False):
    new = op.Expand(op.cast(src, self.dtype), op.sizes(self.shape))
    op.assign(self, new)
    return new


@converter("torch.fill", cases=[])
def fill(op, input, value):
    return op.Expand(op.cast(value, input.dtype), op.sizes(input.shape))


@converter("torch.ops.aten.zero", cases=[])
def zero(op, self):
    return op.Expand(op.constant(0, self.dtype), op.sizes(self.shape))
