"""Reshaping, joining, splitting, permuting: the same elements in another form."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import one_axis, reshaped


@converter("torch.Tensor.view", "torch.reshape", "torch.ops.aten._unsafe_view",
           cases=[case("float32[n,6]", [-1, 2]), case("float32[n,2,3]", [-1, 6])])  # fmt: skip
def reshape(op, input, shape=None, dtype=None):
    if not isinstance(shape, (list, tuple)):
        return _as_dtype(op, input, op.result.dtype)
    return reshaped(op, input, shape)


def _as_dtype(op, x, dtype):
    """Convert view(dtype): read the same bits as numbers of another dtype."""
    if dtype == x.dtype:
        return x
    if dtype.itemsize != x.dtype.itemsize or torch.bool in (dtype, x.dtype) or dtype.is_complex:
        op.refuse("ONNX reads bits as another dtype where both are numbers of as many bits",
                  "compute what the bits stand for")  # fmt: skip
    if op.opset < 26:
        op.refuse(f"opset {op.opset} does not read bits as another dtype", "export with opset=26")
    return op.BitCast(x, to=dtype)


@converter("torch.Tensor.view_as", "torch.Tensor.reshape_as",
           cases=[case("float32[n,6]", "float32[n,2,3]")])  # fmt: skip
def view_as(op, self, other):
    return reshaped(op, self, other.shape)


@converter("torch._shape_as_tensor", cases=[case("float32[n,2,h]")])
def shape_as_tensor(op, self):
    """Return sizes as a tensor; libraries call this when traced, to keep sizes in the graph."""
    return op.Shape(self)


@converter("torch.flatten", cases=[case("float32[n,2,3]", 1), case("float32[n,2,3]")])
def flatten(op, input, start_dim=0, end_dim=-1):
    if input.rank == 0:
        return op.Reshape(input, [1])
    start, end = one_axis(start_dim, input.rank), one_axis(end_dim, input.rank)
    if start == end:
        return input
    if start == 1 and end == input.rank - 1:
        return op.Flatten(input, axis=1)
    merged = 1
    for n in input.shape[start : end + 1]:
        merged = n * merged
    return reshaped(op, input, [*input.shape[:start], merged, *input.shape[end + 1 :]])


@converter("torch.ravel", cases=[case("float32[n,3]")])
def ravel(op, input):
    return flatten(op, input)


@converter("torch.unflatten", "torch.Tensor.unflatten", cases=[case("float32[n,6]", 1, [2, 3])])
def unflatten(op, input, dim, sizes):
    axis = one_axis(dim, input.rank)
    known, sizes = 1, list(sizes)
    for n in sizes:
        known = known if type(n) is int and n == -1 else n * known
    # No -1: beside a size of 0, it could be anything.
    sizes = [input.shape[axis] // known if type(n) is int and n == -1 else n for n in sizes]
    return reshaped(op, input, [*input.shape[:axis], *sizes, *input.shape[axis + 1 :]])


@converter("torch.permute", cases=[case("float32[n,2,3]", [2, 0, 1])])
def permute(op, input, dims):
    return op.Transpose(input, perm=[one_axis(d, input.rank) for d in dims])


@converter("torch.transpose", "torch.swapaxes", "torch.swapdims",
           cases=[case("float32[n,2,3]", 1, 2)])  # fmt: skip
def transpose(op, input, dim0, dim1):
    perm = list(range(input.rank))
    a, b = one_axis(dim0, input.rank), one_axis(dim1, input.rank)
    if a == b or not perm:
        return input
    perm[a], perm[b] = b, a
    return op.Transpose(input, perm=perm)


@converter("torch.t", "torch.Tensor.T.__get__", cases=[case("float32[n,3]")][:1])
def t(op, input):
    return op.Transpose(input, perm=list(range(input.rank))[::-1]) if input.rank > 1 else input


@converter("torch.Tensor.mT.__get__", cases=[])  # a property, which no case calls
def m_t(op, self):
    return transpose(op, self, -1, -2)


@converter("torch.movedim", "torch.moveaxis", cases=[case("float32[n,2,3]", 1, -1)])
def movedim(op, input, source, destination):
    source = [source] if isinstance(source, int) else source
    destination = [destination] if isinstance(destination, int) else destination
    to = {one_axis(d, input.rank): one_axis(s, input.rank) for s, d in zip(source, destination)}
    rest = iter(a for a in range(input.rank) if a not in to.values())
    return op.Transpose(input, perm=[to[a] if a in to else next(rest) for a in range(input.rank)])


@converter("torch.unsqueeze", cases=[case("float32[n,3]", 1), case("float32[n,3]", -1)])
def unsqueeze(op, input, dim):
    return op.Unsqueeze(input, [dim])


@converter("torch.squeeze", cases=[case("float32[n,1,3]", 1), case("float32[2,1,3]")])
def squeeze(op, input, dim=None):
    if dim is None:
        axes = list(range(input.rank))
    else:
        axes = [one_axis(d, input.rank) for d in ([dim] if isinstance(dim, int) else dim)]
    axes = [a for a in axes if a < input.rank and _is_one(op, input.shape[a], a)]
    return op.Squeeze(input, axes) if axes else input


def _is_one(op, size, axis):
    if type(size) is int:
        return size == 1
    if op.at_most(size, 1):
        return True
    return op.recorded(size, f"squeeze drops axis {axis} where its size is 1", equals=1) == 1


@converter("torch.as_strided", cases=[])  # declines where no size is traced
def as_strided(op, input, size, stride, storage_offset=None):
    size, stride = [list(map(op.size, given)) for given in (size, stride)]
    if all(type(n) is int for n in (*input.shape, *size, *stride)):
        return NotImplemented  # at fixed sizes the engine knows the positions
    memory, _ = in_memory(op, input)
    return op.Gather(memory, strided_places(op, size, stride, storage_offset), axis=0)


def in_memory(op, x):
    """Return all elements in memory order, and the order of the axes in memory."""
    order = op.memory_order(x)
    if order is None:
        op.refuse(
            "as_strided picks elements by where they lie in memory, and sizes here may vary",
            "index, unfold or gather say which elements are meant, or make it .contiguous() first",
        )
    return op.Reshape(op.Transpose(x, perm=order), [-1]), order


def strided_places(op, size, stride, offset):
    """Return the positions in memory of the elements of a strided tensor."""
    places = op.constant(0 if offset is None else offset)
    for i, (n, step) in enumerate(zip(size, stride)):
        along = op.Mul(op.Range(0, op.constant(n), 1), op.constant(step))
        trailing = list(range(1, len(size) - i))
        places = op.Add(places, op.Unsqueeze(along, trailing) if trailing else along)
    return places


@converter("torch.ops.aten._reshape_alias", cases=[])  # as above
def reshape_alias(op, self, size, stride):
    """Return a view with given strides: a reshape if they are contiguous, as the memory is."""
    step = 1
    for n, given in zip(size[::-1], stride[::-1]):
        if not op.same(given, step):
            return as_strided(op, self, size, stride)
        step = n * step
    if op.memory_order(self) != list(range(self.rank)):
        return as_strided(op, self, size, stride)
    return reshaped(op, self, size)


@converter("torch.Tensor.expand", "torch.broadcast_to",
           cases=[case("float32[1,3]", [4, -1]), case("float32[3]", [2, 3])])  # fmt: skip
def expand(op, self, size, *, implicit=False):
    lead = len(size) - self.rank
    wanted = [self.shape[i - lead] if type(n) is int and n == -1 else n for i, n in enumerate(size)]
    if op.same(wanted, self.shape):
        return self
    return op.Expand(self, op.sizes(wanted))


@converter("torch.Tensor.expand_as", cases=[case("float32[1,3]", "float32[n,3]")])
def expand_as(op, self, other):
    return op.Expand(self, op.sizes(other.shape))


@converter("torch.Tensor.repeat", "torch.tile", cases=[case("float32[n,3]", [2, 1])])
def repeat(op, self, dims):
    x = self
    if len(dims) > x.rank:
        x = op.Unsqueeze(x, list(range(len(dims) - x.rank)))
    dims = [1] * (x.rank - len(dims)) + list(dims)
    return op.Tile(x, op.sizes(dims))


@converter("torch.cat", "torch.concat", "torch.concatenate",
           cases=[case(["float32[n,3]", "float32[n,2]"], 1)])  # fmt: skip
def cat(op, tensors, dim=0):
    dtype = op.result.dtype
    parts = [
        x for x in tensors if not (x.rank == 1 and op.result.rank > 1)
    ]  # torch skips empty [0]
    times = op.times(tensors) if len(parts) == len(tensors) else None
    return _joined(op, [op.cast(x, dtype) for x in parts], one_axis(dim, parts[0].rank), times)


@converter("torch.stack", cases=[case(["float32[n,3]", "float32[n,3]"], 1)])
def stack(op, tensors, dim=0):
    dtype = op.result.dtype
    axis = one_axis(dim, tensors[0].rank + 1)
    parts = [op.Unsqueeze(op.cast(x, dtype), [axis]) for x in tensors]
    return _joined(op, parts, axis, op.times(tensors))


def _joined(op, parts, axis, times):
    """Concatenate parts; with `times`, tile the first ones, which the parts repeat so often."""
    if times is None:
        return op.Concat(*parts, axis=axis)
    first = op.Concat(*parts[: len(parts) // op.seen(times)], axis=axis)
    return op.Tile(first, op.sizes([times if a == axis else 1 for a in range(first.rank)]))


def _pieces(op, x, sizes, axis):
    if len(sizes) == 1:
        return (x,)
    return tuple(op.Split(x, op.sizes(sizes), axis=axis, outputs=len(sizes)))


def _as_many(op, count, size, each):
    """Return as many pieces as in the recording: a graph has a fixed number of outputs."""
    if not op.same(size, each * count):
        op.rounds(size if op.same(each, 1) else (size + (each - 1)) // each)


@converter("torch.Tensor.split", "torch.split", "torch.functional.split",
           "torch.ops.aten.split", cases=[case("float32[n,6]", 2, 1)])  # fmt: skip
def split(op, tensor, split_size_or_sections, dim=0):
    axis = one_axis(dim, tensor.rank)
    size = tensor.shape[axis]
    sections = split_size_or_sections
    if hasattr(sections, "rank"):
        return NotImplemented  # sizes that are contents of a tensor
    if (length := getattr(sections, "length", None)) is not None:
        op.rounds(length)
    if isinstance(sections, int):
        count = len(op.result)
        _as_many(op, count, size, sections)
        sections = [sections] * (count - 1) + [size - sections * (count - 1)]
    return _pieces(op, tensor, list(sections), axis)


@converter("torch.split_with_sizes",
           cases=[case("float32[n,6]", [1, 2, 3], 1),
                  case("float32[n,6]", split_sizes=[4, 2], dim=1)])  # fmt: skip
def split_with_sizes(op, input, split_sizes, dim=0):
    return split(op, input, split_sizes, dim)


@converter("torch.chunk", cases=[case("float32[n,6]", 3, 1)])
def chunk(op, input, chunks, dim=0):
    axis = one_axis(dim, input.rank)
    size, count = input.shape[axis], len(op.result)
    even = op.same(size % chunks, 0)
    each = size // chunks if even else (size + (chunks - 1)) // chunks
    if not even:  # few elements give fewer pieces
        op.recorded((size + (each - 1)) // each, f"it is cut into {count} piece{'s'[: count > 1]}")
    return _pieces(op, input, [each] * (count - 1) + [size - each * (count - 1)], axis)


@converter("torch.tensor_split",
           cases=[case("float32[n,7]", 3, 1), case("float32[n,7]", [2, 5], 1),
                  case("float32[n,7]", indices=(1,), dim=1),
                  case("float32[n,7]", sections=3, dim=1),
                  case("float32[n,7]", "int64[2]<7", 1, name="places of a tensor")])  # fmt: skip
def tensor_split(op, input, indices_or_sections=None, dim=0, *, indices=None, sections=None,
                 tensor_indices_or_sections=None):  # fmt: skip
    """Split as evenly as possible, the first parts larger by one; or cut at the given places."""
    axis = one_axis(dim, input.rank)
    given = (indices_or_sections, indices, sections, tensor_indices_or_sections)
    size, places = input.shape[axis], next(x for x in given if x is not None)
    if isinstance(places, int):
        each, more = size // places, size % places
        places = [each * i + min(more, i) for i in range(1, places)]
    elif not isinstance(places, (list, tuple)):
        if not places.rank and not places.is_constant:
            op.refuse("how many parts there are, only the contents of a tensor tell")
        return _cut(op, input, places, axis)
    bounds = [0, *places, 2**62]
    return tuple(
        op.Slice(input, op.sizes([a]), op.sizes([b]), [axis]) for a, b in zip(bounds, bounds[1:])
    )


def _cut(op, input, places, axis):
    """Cut at positions in a tensor, or into the number of parts that it holds."""
    if not places.rank:
        return tensor_split(op, input, int(places.item()), axis)
    count = len(op.result) - 1
    places = op.cast(places, torch.int64)
    bounds = [[0], *(op.Slice(places, [i], [i + 1], [0]) for i in range(count)), [2**62]]
    return tuple(op.Slice(input, a, b, [axis]) for a, b in zip(bounds, bounds[1:]))


@converter("torch.unbind", cases=[case("float32[n,3]", 1)])
def unbind(op, input, dim=0):
    axis = one_axis(dim, input.rank)
    count = len(op.result)
    _as_many(op, count, input.shape[axis], 1)
    parts = [input] if count == 1 else op.Split(input, [1] * count, axis=axis, outputs=count)
    return tuple(op.Squeeze(p, [axis]) for p in parts)


@converter("torch.flip", cases=[case("float32[n,3]", [1])])
def flip(op, input, dims):
    axes = [one_axis(d, input.rank) for d in dims]
    if not axes or input.rank == 0:
        return input
    return op.Slice(input, [-1] * len(axes), [-(2**62)] * len(axes), axes, [-1] * len(axes))


@converter("torch.roll", cases=[case("float32[n,5]", 2, 1), case("float32[n,5]", 2, None)])
def roll(op, input, shifts, dims=()):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims or ())
    if not dims:
        return reshaped(op, roll(op, op.Reshape(input, [-1]), shifts, [0]), input.shape)
    x = input
    for shift, axis in zip(shifts, dims):
        axis = one_axis(axis, x.rank)
        size = x.shape[axis]
        shift = shift % (size or 1 if type(size) is int else op.larger(size, 1))
        if type(shift) is int and shift == 0:
            continue
        border = op.sizes([size - shift])
        tail = op.Slice(x, border, [2**62], [axis])
        x = op.Concat(tail, op.Slice(x, [0], border, [axis]), axis=axis)
        x.sized(input.shape)
    return x


@converter(
    "torch.rot90", cases=[case("float32[n,3]"), case("float32[n,3]", 2), case("float32[n,3]", -1)]
)
def rot90(op, input, k=1, dims=(0, 1)):
    a, b = (one_axis(d, input.rank) for d in dims)
    turns = k % 4
    if turns == 0:
        return input
    if turns == 2:
        return flip(op, input, [a, b])
    x = flip(op, input, [b if turns == 1 else a])
    return transpose(op, x, a, b)


@converter("torch.nn.functional.pixel_shuffle", cases=[case("float32[n,8,h,3]", 2)])
def pixel_shuffle(op, input, upscale_factor):
    r = upscale_factor
    if input.rank == 4:
        return op.DepthToSpace(input, blocksize=r, mode="CRD")
    *lead, c, h, w = input.shape
    n = len(lead)
    x = reshaped(op, input, [*lead, c // (r * r), r, r, h, w])
    x = op.Transpose(x, perm=[*range(n + 1), n + 3, n + 1, n + 4, n + 2])
    return reshaped(op, x, [*lead, c // (r * r), h * r, w * r])


@converter("torch.nn.functional.pixel_unshuffle", cases=[case("float32[n,2,4,6]", 2)])
def pixel_unshuffle(op, input, downscale_factor):
    r = downscale_factor
    *lead, c, h, w = input.shape
    n = len(lead)
    x = reshaped(op, input, [*lead, c, h // r, r, w // r, r])
    x = op.Transpose(x, perm=[*range(n + 1), n + 2, n + 4, n + 1, n + 3])
    return reshaped(op, x, [*lead, c * (r * r), h // r, w // r])


@converter("torch.nn.functional.channel_shuffle", "torch.ops.aten.channel_shuffle",
           cases=[case("float32[n,6,h]", 3)])  # fmt: skip
def channel_shuffle(op, input, groups):
    n, c, *rest = input.shape
    x = op.Reshape(input, op.sizes([n, groups, c // groups, *rest]))
    x = op.Transpose(x, perm=[0, 2, 1, *range(3, x.rank)])
    return op.Reshape(x, op.sizes(input.shape))


@converter("torch.ops.aten.block_diag", cases=[case(["float32[2,3]", "float32[n,2]"])])
@converter("torch.block_diag", cases=[case("float32[2,3]", "float32[n,2]")])
def block_diag(op, *tensors):
    """Stack the blocks, each padded to the width of all of them."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    dtype = op.result.dtype
    blocks = [x if x.rank == 2 else op.Reshape(x, [1, -1]) for x in tensors]
    total = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = total - before - x.shape[1]
        rows.append(op.Pad(op.cast(x, dtype), op.sizes([0, before, 0, after])))
        before = before + x.shape[1]
    return op.Concat(*rows, axis=0) if len(rows) > 1 else rows[0]
