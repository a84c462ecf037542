"""Reshaping, joining, splitting, permuting: the same elements in another form."""

from __future__ import annotations

from hx import case, converter

from ._common import one_axis


@converter("torch.Tensor.view", "torch.reshape", "torch.ops.aten._unsafe_view",
           cases=[case("float32[n,6]", [-1, 2]), case("float32[n,2,3]", [-1, 6])])  # fmt: skip
def reshape(op, input, shape, dtype=None):
    if not isinstance(shape, (list, tuple)):
        return NotImplemented  # view(dtype)
    allow = {"allowzero": 1} if any(type(n) is int and n == 0 for n in shape) else {}
    return op.Reshape(input, op.sizes(shape), **allow)


@converter("torch.Tensor.view_as", "torch.Tensor.reshape_as",
           cases=[case("float32[n,6]", "float32[n,2,3]")])  # fmt: skip
def view_as(op, self, other):
    return op.Reshape(self, op.sizes(other.shape))


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
    return op.Reshape(input, op.sizes([*input.shape[:start], merged, *input.shape[end + 1 :]]))


@converter("torch.unflatten", "torch.Tensor.unflatten", cases=[case("float32[n,6]", 1, [2, 3])])
def unflatten(op, input, dim, sizes):
    axis = one_axis(dim, input.rank)
    return op.Reshape(input, op.sizes([*input.shape[:axis], *sizes, *input.shape[axis + 1 :]]))


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


@converter("torch.Tensor.mT.__get__", cases=[])
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
    return op.recorded(size, f"squeeze drops axis {axis} where its size is 1") == 1


@converter("torch.as_strided", cases=[])
def as_strided(op, input, size, stride, storage_offset=None):
    if any(type(n) is not int for n in (*input.shape, *size, *stride)):
        op.refuse(
            "as_strided picks elements by where they lie in memory, and sizes here may vary",
            "index, unfold or gather say which elements are meant",
        )
    return NotImplemented  # at fixed sizes the engine knows the places


@converter("torch.Tensor.expand", "torch.broadcast_to",
           cases=[case("float32[1,3]", [4, -1]), case("float32[3]", [2, 3])])  # fmt: skip
def expand(op, self, size, *, implicit=False):
    lead = len(size) - self.rank
    wanted = [
        self.shape[i - lead] if type(n) is int and n == -1 else n for i, n in enumerate(size)
    ]
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
    parts = [x for x in tensors if not (x.rank == 1 and op.result.rank > 1)]  # torch skips empty [0]
    return op.Concat(*[op.cast(x, dtype) for x in parts], axis=one_axis(dim, parts[0].rank))


@converter("torch.stack", cases=[case(["float32[n,3]", "float32[n,3]"], 1)])
def stack(op, tensors, dim=0):
    dtype = op.result.dtype
    axis = one_axis(dim, tensors[0].rank + 1)
    return op.Concat(*[op.Unsqueeze(op.cast(x, dtype), [axis]) for x in tensors], axis=axis)


def _pieces(op, x, sizes, axis):
    if len(sizes) == 1:
        return (x,)
    return tuple(op.Split(x, op.sizes(sizes), axis=axis, outputs=len(sizes)))


@converter("torch.Tensor.split", "torch.split", "torch.functional.split",
           "torch.ops.aten.split", "torch.split_with_sizes", cases=[case("float32[n,6]", 2, 1)])  # fmt: skip
def split(op, tensor, split_size_or_sections, dim=0):
    axis = one_axis(dim, tensor.rank)
    size = tensor.shape[axis]
    sections = split_size_or_sections
    if isinstance(sections, int):
        count = len(op.result)
        sections = [sections] * (count - 1) + [size - sections * (count - 1)]
    return _pieces(op, tensor, list(sections), axis)


@converter("torch.chunk", cases=[case("float32[n,6]", 3, 1)])
def chunk(op, input, chunks, dim=0):
    axis = one_axis(dim, input.rank)
    size, count = input.shape[axis], len(op.result)
    each = (size + (chunks - 1)) // chunks
    return _pieces(op, input, [each] * (count - 1) + [size - each * (count - 1)], axis)


@converter("torch.unbind", cases=[case("float32[n,3]", 1)])
def unbind(op, input, dim=0):
    axis = one_axis(dim, input.rank)
    count = len(op.result)
    parts = [input] if count == 1 else op.Split(input, [1] * count, axis=axis, outputs=count)
    return tuple(op.Squeeze(p, [axis]) for p in parts)


@converter("torch.diagonal", "torch.linalg.diagonal",
           cases=[case("float32[n,3,4]", 1, 1, 2), case("float32[3,n]", -1)])  # fmt: skip
def diagonal(op, input, offset=0, dim1=0, dim2=1):
    """Of the last two axes as one, every (columns + 1)th element."""
    first, second = one_axis(dim1, input.rank), one_axis(dim2, input.rank)
    rest = [a for a in range(input.rank) if a not in (first, second)]
    x = op.Transpose(input, perm=[*rest, first, second])
    rows, columns = input.shape[first], input.shape[second]
    if offset < 0:
        rows, start = rows + offset, -offset * columns
    else:
        columns, start = columns - offset, offset
    count = max(min(rows, columns), 0)
    flat = op.Reshape(x, op.sizes([*x.shape[:-2], input.shape[first] * input.shape[second]]))
    stride = op.constant(input.shape[second] + 1)
    places = op.Add(op.Mul(op.Range(0, op.constant(count), 1), stride), op.constant(start))
    return op.Gather(flat, places, axis=len(rest))


@converter("torch.Tensor.unfold", cases=[case("float32[n,3,7]", 2, 3, 2)])
def unfold(op, self, dimension, size, step):
    """Windows of one axis; the elements of a window lie on a new last axis."""
    if not self.rank:
        return op.Reshape(self, [1])
    axis = one_axis(dimension, self.rank)
    count = (self.shape[axis] - size) // step + 1
    starts = op.Unsqueeze(op.Mul(op.Range(0, op.constant(count), 1), op.constant(step)), [1])
    places = op.Add(starts, op.Unsqueeze(op.Range(0, op.constant(size), 1), [0]))
    windows = op.Gather(self, places, axis=axis)
    kept = [a for a in range(self.rank + 1) if a != axis + 1]
    return op.Transpose(windows, perm=[*kept, axis + 1])


@converter("torch.flip", cases=[case("float32[n,3]", [1])])
def flip(op, input, dims):
    axes = [one_axis(d, input.rank) for d in dims]
    if not axes:
        return input
    return op.Slice(input, [-1] * len(axes), [-(2**62)] * len(axes), axes, [-1] * len(axes))


@converter("torch.roll", cases=[case("float32[n,5]", 2, 1)])
def roll(op, input, shifts, dims=()):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return op.Reshape(roll(op, op.Reshape(input, [-1]), shifts, [0]), op.sizes(input.shape))
    x = input
    for shift, axis in zip(shifts, dims):
        size = x.shape[axis]
        if type(size) is int:
            shift = shift % max(size, 1)
            if not shift:
                continue
        tail = op.Slice(x, op.sizes([-shift]), [2**62], [axis])
        x = op.Concat(tail, op.Slice(x, [0], op.sizes([-shift]), [axis]), axis=axis)
    return x


@converter("torch.tril", cases=[case("float32[n,4,4]"), case("float32[n,4,4]", 1)])
def tril(op, input, diagonal=0):
    return op.Trilu(input, op.constant(diagonal), upper=0)


@converter("torch.triu", cases=[case("float32[n,4,4]"), case("float32[n,4,4]", 1)])
def triu(op, input, diagonal=0):
    return op.Trilu(input, op.constant(diagonal), upper=1)


@converter("torch.nn.functional.pixel_shuffle", cases=[case("float32[n,8,h,3]", 2)])
def pixel_shuffle(op, input, upscale_factor):
    if input.rank != 4:
        return NotImplemented
    return op.DepthToSpace(input, blocksize=upscale_factor, mode="CRD")


@converter("torch.nn.functional.pad", "torch.constant_pad_nd",
           cases=[case("float32[n,3,5]", [1, 2]), case("float32[n,3,5]", [1, 2], mode="reflect")])  # fmt: skip
def pad(op, input, pad, mode="constant", value=None):
    count = len(pad) // 2
    axes = list(range(input.rank - 1, input.rank - 1 - count, -1))
    begins, ends = list(pad[0::2]), list(pad[1::2])
    x = input
    if any(type(n) is int and n < 0 for n in (*begins, *ends)):
        x = op.Slice(x, [max(-b, 0) for b in begins],
                     [-max(-e, 0) if e < 0 else 2**62 for e in ends], axes)  # fmt: skip
        begins, ends = [max(b, 0) for b in begins], [max(e, 0) for e in ends]
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    filler = [op.constant(value or 0, x.dtype)] if mode == "constant" else [None]
    full = [0] * (2 * x.rank)
    for axis, b, e in zip(axes, begins, ends):
        full[axis], full[axis + x.rank] = b, e
    return op.Pad(x, op.sizes(full), *filler, mode=modes[mode])
