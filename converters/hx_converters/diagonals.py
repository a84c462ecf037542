"""Diagonals, triangles, and matrices built from them."""

from __future__ import annotations

from hx import case, converter

from ._common import counted, one_axis, reshaped


@converter("torch.linalg.diagonal",
           cases=[case("float32[n,3,4]", offset=1), case("float32[3,n]", offset=-1),
                  case("float32[n,3,4]", dim1=0, dim2=1)])  # fmt: skip
def linalg_diagonal(op, A, *, offset=0, dim1=-2, dim2=-1):
    return diagonal(op, A, offset, dim1, dim2)


@converter("torch.diagonal",
           cases=[case("float32[n,3,4]", 1, 1, 2), case("float32[3,n]", -1)])  # fmt: skip
def diagonal(op, input, offset=0, dim1=0, dim2=1):
    """Flatten the two axes into one and take every (columns + 1)th element."""
    first, second = one_axis(dim1, input.rank), one_axis(dim2, input.rank)
    rest = [a for a in range(input.rank) if a not in (first, second)]
    x = op.Transpose(input, perm=[*rest, first, second])
    rows, columns = input.shape[first], input.shape[second]
    if offset < 0:
        rows, start = rows + offset, -offset * columns
    else:
        columns, start = columns - offset, offset
    count = max(min(rows, columns), 0)
    flat = reshaped(op, x, [*x.shape[:-2], input.shape[first] * input.shape[second]])
    stride = op.constant(input.shape[second] + 1)
    places = op.Add(op.Mul(op.Range(0, op.constant(count), 1), stride), op.constant(start))
    return op.Gather(flat, places, axis=len(rest))


@converter("torch.diag_embed", cases=[case("float32[n,3]"), case("float32[n,3]", 1, 0, 2)])
def diag_embed(op, input, offset=0, dim1=-2, dim2=-1):
    """Put each vector on a diagonal of zeros, where row and column are `offset` apart."""
    rank = input.rank + 1
    size = input.shape[-1] + abs(offset)
    room = [0] * (2 * input.rank - 1) + [abs(offset)]
    x = op.Pad(input, op.sizes(room)) if offset else input
    x = op.Unsqueeze(x, [rank - 1 if offset >= 0 else rank - 2])
    steps = counted(op, size)
    here = op.Equal(op.Sub(steps, op.Unsqueeze(steps, [1])), op.constant(offset))
    x = op.Where(here, x, op.constant(0, x.dtype))
    first, second = one_axis(dim1, rank), one_axis(dim2, rank)
    rest = iter(range(rank - 2))
    perm = [{first: rank - 2, second: rank - 1}.get(a) for a in range(rank)]
    return op.Transpose(x, perm=[next(rest) if p is None else p for p in perm])


@converter("torch.diag", cases=[case("float32[n]", 1), case("float32[n,3]")])
def diag(op, input, diagonal=0):
    return diag_embed(op, input, diagonal) if input.rank == 1 else _diagonal(op, input, diagonal)


_diagonal = diagonal


@converter("torch.diagflat", cases=[case("float32[n,3]", 1)])
def diagflat(op, input, offset=0):
    return diag_embed(op, op.Reshape(input, [-1]), offset)


@converter("torch.diagonal_scatter", cases=[case("float32[4,4]", "float32[4]")])
def diagonal_scatter(op, input, src, offset=0, dim1=0, dim2=1):
    """Replace the diagonal by the elements of src at the same positions."""
    first, second = one_axis(dim1, input.rank), one_axis(dim2, input.rank)
    rows, columns = input.shape[first], input.shape[second]
    wide = op.sizes([*src.shape[:-1], rows, columns])
    i, j = op.Unsqueeze(counted(op, rows), [1]), counted(op, columns)
    here = op.Equal(op.Sub(j, i), op.constant(offset))
    place = op.Where(here, j if offset < 0 else i, 0)
    lead = [1] * (input.rank - 2)
    place = op.Expand(op.Reshape(place, op.sizes([*lead, rows * columns])),
                      op.sizes([*src.shape[:-1], rows * columns]))  # fmt: skip
    spread = op.Reshape(
        op.GatherElements(op.cast(src, input.dtype), place, axis=src.rank - 1), wide
    )
    rest = [a for a in range(input.rank) if a not in (first, second)]
    order = [*rest, first, second]
    back = [order.index(a) for a in range(input.rank)]
    return op.Where(_laid(op, here, back, input.rank), op.Transpose(spread, perm=back), input)


def _laid(op, matrix, back, rank):
    wide = op.Unsqueeze(matrix, list(range(rank - 2))) if rank > 2 else matrix
    return op.Transpose(wide, perm=back)


@converter("torch.trace", cases=[case("float32[n,3]")])
def trace(op, input):
    return op.ReduceSum(op.cast(_diagonal(op, input), op.result.dtype), [0], keepdims=0)


@converter("torch.tril", cases=[case("float32[n,4,4]"), case("float32[n,4,4]", 1)])
def tril(op, input, diagonal=0):
    return op.Trilu(input, op.constant(diagonal), upper=0)


@converter("torch.triu", cases=[case("float32[n,4,4]"), case("float32[n,4,4]", 1)])
def triu(op, input, diagonal=0):
    return op.Trilu(input, op.constant(diagonal), upper=1)


def _indices(upper):
    def convert(op, row, col, offset=0, *, dtype=None):
        ones = op.Expand(op.constant(1), op.sizes([row, col]))
        found = op.NonZero(op.Trilu(ones, op.constant(offset), upper=upper))
        return op.cast(found, op.result.dtype)

    return convert


# Functions of sizes alone: a case has no traced size.
tril_indices = converter("torch.tril_indices", cases=[])(_indices(0))
triu_indices = converter("torch.triu_indices", cases=[])(_indices(1))
