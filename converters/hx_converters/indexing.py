"""Reading and writing by index: all forms of `x[...]`, gather, scatter and related functions."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import MOVES, is_value, one_axis, scalars_too

_END = 2**62


def _expanded(op, x, index):
    """Return an index with one entry for each axis of x and each None; `...` is expanded."""
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    if isinstance(index, list) and not any(
        is_value(i) or isinstance(i, (slice, list, tuple, type(None), type(Ellipsis)))
        for i in index
    ):
        parts = [index]  # a plain list of numbers is one index, not several
    parts = [
        _listed(op, part) if isinstance(part, (list, tuple, range)) else part for part in parts
    ]
    used = 0
    for part in parts:
        if part is None or part is Ellipsis or isinstance(part, bool):
            continue
        used += part.rank if is_value(part) and part.dtype in (torch.bool, torch.uint8) else 1
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


def _listed(op, numbers):
    """Return a list as the tensor that PyTorch makes of it: positions or a mask."""
    if any(not isinstance(n, (int, list, tuple)) or _is_size(n) for n in numbers):
        return op.sizes(numbers)
    return op.constant(torch.tensor(numbers, dtype=None if numbers else torch.int64))


def _is_size(n):
    return isinstance(n, int) and type(n) not in (int, bool)


def _plan(op, x, index):
    """Split an index into steps, in the order in which PyTorch takes them.

    First slices are taken (by axis of x; a number is a slice that loses its axis), then axes of 1
    are added, then tensors pick: `layout` holds, for each remaining axis, whether it was added,
    and the tensor that indexes it.
    """
    slices, drop, layout = {}, [], []
    axis = 0
    for part in _expanded(op, x, index):
        if part is None:
            layout.append((True, None))
        elif isinstance(part, bool):
            layout.append((True, op.constant([0][:part], torch.int64)))
        elif isinstance(part, slice):
            if part != slice(None):
                slices[axis] = part
            layout.append((False, None))
            axis += 1
        elif isinstance(part, int):
            drop.append(axis)
            slices[axis] = _from_the_front(op, part, x.shape[axis])
            axis += 1
        elif part.dtype not in (torch.bool, torch.uint8):
            layout.append((False, op.cast(part, torch.int64)))
            axis += 1
        else:
            layout.extend((part.rank == 0, row) for row in _true_places(op, part))
            axis += part.rank
    return slices, drop, layout


def _from_the_front(op, place, size):
    """Return a position that may depend on sizes, counted from the front."""
    return place if type(place) is int or op.at_most(0, place) else place % size


def _true_places(op, mask):
    """Return the positions where a mask is true, one list for each of its axes."""
    known = op.contents(mask)
    if known is not None:
        return [op.constant(row) for row in torch.atleast_1d(known).nonzero(as_tuple=True)]
    rows = op.NonZero(mask if mask.rank else op.Reshape(mask, [1]))
    count = max(mask.rank, 1)
    parts = [rows] if count == 1 else op.Split(rows, [1] * count, axis=0, outputs=count)
    return [op.Reshape(row, [-1]) for row in parts]


def _start_end(part, size):
    step = 1 if part.step is None else part.step
    start = 0 if part.start is None else part.start
    end = _END if part.stop is None else part.stop
    return start, end, step


def _number(op, n):
    """Return a slice's bound: an int, a size, or a tensor that holds one."""
    return op.Reshape(op.cast(n, torch.int64), [1]) if is_value(n) else n


def _bounds(op, numbers):
    if not any(is_value(n) for n in numbers):
        return op.sizes(numbers)
    parts = [n if is_value(n) else op.sizes([n]) for n in (_number(op, n) for n in numbers)]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


def _sliced(op, x, slices, drop):
    """Take all slices in one node, then drop the axes that ints picked from."""
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
        case("float32[n,5]", (slice(None), [0, 2])), case("float32[n,5]", (..., (1, 0))),
        case("float32[n,3]", (slice(None), [True, False, True])), case("float32[2,n]", [False, True]),
        case("float32[1,2,3]", ([True], [True, False], [False, True, False])),
    ],
)  # fmt: skip
def getitem(op, self, index):
    picked = _masked(op, self, index)
    if picked is not None:
        return picked
    slices, drop, layout = _plan(op, self, index)
    x = _sliced(op, self, slices, drop)
    added = [i for i, (new, _) in enumerate(layout) if new]
    tensors = {i: t for i, (_, t) in enumerate(layout) if t is not None}
    x = op.Unsqueeze(x, added) if added else x
    return _gathered(op, x, tensors) if tensors else x


@converter("torch.ops.aten.index", "torch.ops.aten._unsafe_index",
           cases=[case("float32[4,5]", [lambda: torch.tensor([2, 0])]),
                  case("float32[n,5]", [None, lambda: torch.tensor([4, 1])])])  # fmt: skip
def index(op, self, indices):
    """Index as x[i, :, j] does: a tensor for each axis that is picked from, else None."""
    return getitem(op, self, tuple(slice(None) if i is None else i for i in indices))


def _masked(op, x, index):
    """Pick whole slices by one mask over the first axes; None for any other index."""
    if isinstance(index, tuple) and len(index) == 1:
        (index,) = index
    if not is_value(index) or index.dtype not in (torch.bool, torch.uint8) or not index.rank:
        return None
    if index.rank == 1:
        return op.Compress(x, op.cast(index, torch.bool), axis=0)
    return op.GatherND(x, op.Transpose(op.NonZero(index), perm=[1, 0]))


def _apart(axes):
    return any(b - a > 1 for a, b in zip(axes, axes[1:]))


def _gathered(op, x, tensors):
    """Index some axes of x by tensors; keep the others whole."""
    axes = sorted(tensors)
    if len(axes) == 1:
        return op.Gather(x, tensors[axes[0]], axis=axes[0])
    rest = [a for a in range(x.rank) if a not in axes]
    if axes != list(range(len(axes))):
        x = op.Transpose(x, perm=axes + rest)
    indices, width = _stacked(
        op, [_positive(op, tensors[a], x.shape[i]) for i, a in enumerate(axes)]
    )
    y = op.GatherND(x, indices)
    if _apart(axes) or axes[0] == 0:
        return y
    # Adjacent index tensors: their axes replace the first one's.
    lead = axes[0]
    perm = [width + i for i in range(lead)] + list(range(width))
    return op.Transpose(y, perm=perm + list(range(width + lead, y.rank)))


def _positive(op, index, size):
    """Count indices from the front: not every GatherND and ScatterND accepts negative ones."""
    if index.is_constant:
        return (
            index
            if not (index.tensor < 0).any() or type(size) is not int
            else op.constant(torch.where(index.tensor < 0, index.tensor + size, index.tensor))
        )
    return op.Where(op.Less(index, 0), op.Add(index, op.constant(size)), index)


def _stacked(op, tensors):
    """Broadcast index tensors together and join them on a new last axis."""
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


# It returns nothing: tests/recording/test_mutation_index.py tests it.
@converter("torch.Tensor.__setitem__", cases=[])
def setitem(op, self, index, value):
    """Replace some elements of a tensor by scattering to their positions."""
    if any(type(n) is int and n == 0 for n in self.shape):
        op.assign(self, self)  # there is nothing in it
        return None
    value = op.cast(value, self.dtype)
    if is_value(index) and index.dtype == torch.bool and value.rank == 0:
        mask = index
        if mask.rank < self.rank:
            mask = op.Unsqueeze(mask, list(range(mask.rank, self.rank)))
        op.assign(self, op.Where(mask, value, self))
        return None
    whole = _whole_axis_write(op, self, index, value)
    if whole is not None:
        op.assign(self, whole)
        return None
    # The same index into a tensor of element numbers gives the position of each value.
    count = op.Reshape(op.Range(0, op.constant(self.numel()), 1), op.sizes(self.shape))
    places = getitem(op, count, index)
    if places is NotImplemented:
        return NotImplemented
    while value.rank > places.rank:  # PyTorch drops leading axes of 1 of the written value
        value = op.Squeeze(value, [0])
    value = op.Expand(value, op.Shape(places))
    flat = op.ScatterElements(
        op.Reshape(self, [-1]), op.Reshape(places, [-1]), op.Reshape(value, [-1]), axis=0
    )
    op.assign(self, op.Reshape(flat, op.sizes(self.shape)))
    return None


def _whole_axis_write(op, x, index, value):
    """Write x[:, a:b] = v with constant bounds as a Concat: the part before, v, the part after."""
    plan = _plan(op, x, index) if not is_value(index) else None
    if plan is None:
        return None
    slices, _, layout = plan
    if any(new or t is not None for new, t in layout):
        return None
    if not slices:
        return op.Expand(value, op.sizes(x.shape))
    if len(slices) != 1:
        return None
    ((axis, part),) = slices.items()
    size = x.shape[axis]
    written = _fixed_range(part, size)
    if written is None:
        return None
    start, end = written
    if type(part) is int and value.rank:  # it has no such axis
        lead = x.rank - 1 - value.rank
        if lead < 0:
            return None
        value = op.Unsqueeze(value, [axis - lead]) if axis >= lead else value
    if value.rank > x.rank:
        return None
    shape = [*x.shape[:axis], end - start, *x.shape[axis + 1 :]]
    middle = op.Expand(value, op.sizes(shape))
    parts = []
    if start > 0:
        parts.append(op.Slice(x, [0], [start], [axis]))
    parts.append(middle)
    if end < size:
        parts.append(op.Slice(x, [end], [size], [axis]))
    return op.Concat(*parts, axis=axis) if len(parts) > 1 else middle


def _fixed_range(part, size):
    """Return the first index, and the one behind the last, of an index that never changes."""
    if type(part) is int and type(size) is int:
        return part % size, part % size + 1
    if not isinstance(part, slice):
        return None
    start, end, step = _start_end(part, size)
    if any(type(n) is not int for n in (start, end, step, size)) or step != 1:
        return None
    start, end, _ = slice(start, end).indices(size)
    return start, max(end, start)


@converter("torch.select", cases=[case("float32[n,5]", 1, 2)])
def select(op, input, dim, index):
    return op.Gather(input, op.constant(index), axis=one_axis(dim, input.rank))


@converter("torch.narrow", cases=[case("float32[n,5]", 1, 1, 2)])
def narrow(op, input, dim, start, length):
    axis = one_axis(dim, input.rank)
    if is_value(start):
        first = op.Reshape(op.cast(start, torch.int64), [1])
        ends = first, op.Add(first, op.sizes([length]))
    else:
        if type(start) is int and start < 0:
            start = start + input.shape[axis]
        start = _from_the_front(op, start, input.shape[axis])
        ends = op.sizes([start]), op.sizes([start + length])
    y = op.Slice(input, *ends, [axis])
    y.sized([*input.shape[:axis], length, *input.shape[axis + 1 :]])  # PyTorch would raise
    return y


@converter("torch.ops.aten.slice", cases=[case("float32[n,5]", 1, 1, 4, 2)])
def slice_(op, input, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * one_axis(dim, input.rank) + [slice(start, end, step)]
    return getitem(op, input, tuple(index))


@converter("torch.index_select", cases=[case("float32[n,5]", 1, "int64[3]<5")])
@scalars_too
def index_select(op, input, dim, index):
    index = index if index.rank else op.Unsqueeze(index, [0])
    return op.Gather(input, index, axis=one_axis(dim, input.rank))


@converter("torch.gather", cases=[case("float32[n,5]", 1, "int64[n,3]<5")])
def gather(op, input, dim, index, *, sparse_grad=False):
    x = input if input.rank else op.Unsqueeze(input, [0])
    axis = one_axis(dim, x.rank)
    if index.rank == 0:
        return op.Gather(x, index, axis=axis)
    if index.rank != x.rank:  # PyTorch lets an index without elements have any rank
        return op.Expand(op.constant(0, x.dtype), op.sizes(index.shape))
    return op.GatherElements(x, index, axis=axis)


@converter("torch.take", cases=[case("float32[n,5]", "int64[3]<5")])
def take(op, input, index):
    return op.Gather(op.Reshape(input, [-1]), index)


@converter("torch.take_along_dim", cases=[case("float32[n,5]", "int64[1,3]<5", 1),
                                          case("float32[n,5]", "int64[4]<5"),
                                          case("float32[n,5]", lambda: torch.tensor([[-1, 2]]), 1)])  # fmt: skip
def take_along_dim(op, input, indices, dim=None):
    if dim is None:
        return op.Gather(op.Reshape(input, [-1]), op.Reshape(indices, [-1]))
    axis = one_axis(dim, input.rank)
    # All other axes are broadcast, by tensors that carry only a shape.
    common = [_both(op, m, n) for m, n in zip(input.shape, indices.shape)]
    x, places = (
        op.Expand(each, op.sizes([*common[:axis], each.shape[axis], *common[axis + 1 :]]))
        for each in (input, indices)
    )
    size = input.shape[axis]
    if not _are_inside(op, indices, size):
        places = op.Mod(places, op.constant(op.larger(size, 1), places.dtype))
    return op.GatherElements(x, places, axis=axis)


def _are_inside(op, places, size):
    """Return whether no position can lie outside an axis; PyTorch wraps those that do."""
    known = op.contents(places)
    if known is not None:
        return type(size) is int and not bool(((known < -size) | (known >= size)).any())
    node = places.node
    if node is None:
        return False
    if node.op in MOVES:
        return _are_inside(op, node.inputs[0], size)
    if node.op == "Where":  # such as the index of a NaN, or else of the largest number
        return all(_are_inside(op, each, size) for each in node.inputs[1:])
    if node.op not in ("TopK", "ArgMax", "ArgMin"):
        return False
    ordered, axis = node.inputs[0], node.attributes.get("axis", -1 if node.op == "TopK" else 0)
    return ordered.shape is not None and op.at_most(ordered.shape[axis], size)


def _both(op, m, n):
    """Return the size to which two sizes broadcast, a fixed one if there is one."""
    if type(m) is int:
        return n if m == 1 else m
    if type(n) is int:
        return m if n == 1 else n
    return op.larger(m, n)


@converter("torch.masked_select", cases=[case("float32[n,3]", "bool[n,3]")])
def masked_select(op, input, mask):
    if not input.rank and not mask.rank:
        input, mask = op.Reshape(input, [1]), op.Reshape(mask, [1])
    if not op.same(input.shape, mask.shape):
        input = op.Where(mask, input, input)  # both as large as the larger
        mask = op.Expand(mask, op.sizes(input.shape))
    return op.Compress(input, op.Reshape(mask, [-1]))


@converter("torch.nn.functional.embedding", cases=[case("int64[n,3]<5", "float32[5,4]")])
def embedding(op, input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
              scale_grad_by_freq=False, sparse=False):  # fmt: skip
    return NotImplemented if max_norm is not None else op.Gather(weight, input)


@converter("torch.embedding", cases=[case("float32[5,3]", "int64[n,2]<5")])
def embedding_operator(op, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return op.Gather(weight, indices)


@converter("torch.nn.functional.one_hot", cases=[case("int64[n,3]<5", 5), case("int64[n,3]<5")])
@scalars_too
def one_hot(op, tensor, num_classes=-1):
    if type(num_classes) is int and num_classes < 0:  # the largest number determines the count
        classes = op.Add(op.ReduceMax(tensor, list(range(tensor.rank)), keepdims=0), 1)
        return op.OneHot(tensor, op.Reshape(classes, [1]), op.constant([0, 1]))
    return op.OneHot(tensor, op.sizes([num_classes]), op.constant([0, 1]))


@converter("torch.ops.aten.copy", cases=[case("float32[n,3]", "int64[3]")])
def copy(op, self, src, non_blocking=False):
    return op.Expand(op.cast(src, self.dtype), op.sizes(self.shape))


@converter("torch.Tensor.copy_", cases=[case("float32[n,3]", "int64[3]")])
def copy_(op, self, src, non_blocking=False):
    new = copy(op, self, src)
    op.assign(self, new)
    return new


@converter("torch.fill", cases=[case("float32[n,3]", 1.5)])
def fill(op, input, value):
    return op.Expand(op.cast(value, input.dtype), op.sizes(input.shape))


@converter("torch.ops.aten.zero", cases=[case("float32[n,3]")])
def zero(op, self):
    return op.Expand(op.constant(0, self.dtype), op.sizes(self.shape))
