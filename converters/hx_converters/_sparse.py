"""Products with sparse matrices, and sums of their elements."""

from __future__ import annotations

from ._common import axes_of
from ._halves import rounded_once

# A constant that is small, or hardly sparse, is stored with its zeros: runtimes are far better at
# dense products, and few bytes are lost. (A zero counts there: beside an infinity it gives NaN.)
SMALL_BYTES = 4 << 20  # bytes of the dense form
DENSITY = 1 / 20


def settled(op, x):
    """Return the dense form of a constant that is better stored dense; others unchanged."""
    if not op.is_sparse(x):
        return x
    tensor = op.contents(x)
    if tensor is None:
        return x if x.rank == 2 else op.dense(x)  # its numbers are known at run time only
    size = tensor.numel() * x.dtype.itemsize
    held = op.elements(x)
    full = held is not None and held[1].numel() >= DENSITY * tensor.numel()
    return op.dense(x) if size <= SMALL_BYTES or full else x


def product(op, a, b):
    """Compute a @ b if one of them is sparse; NotImplemented if the result is not dense."""
    if (op.is_sparse(a) and op.is_sparse(b)) or a.rank > 2 or b.rank > 2:
        return NotImplemented
    whole, other = (a, b) if op.is_sparse(a) else (b, a)
    held = op.elements(whole)
    if held is None or whole.rank != 2:
        return NotImplemented
    return _added(op, held[0], held[1], whole.shape, other, from_left=whole is a)


@rounded_once
def _added(op, places, numbers, shape, x, from_left):
    """Multiply each element with its row (or column) of x, and add up the products in place."""
    out, within = (0, 1) if from_left else (1, 0)
    if x.rank == 1:
        axis, sizes = 0, [shape[out]]
    else:
        axis = out
        sizes = [shape[0], x.shape[1]] if from_left else [x.shape[0], shape[1]]
    zeros = op.Expand(op.constant(0, x.dtype), op.sizes(sizes))
    count = numbers.shape[0]
    if type(count) is int and count == 0:
        return zeros
    wide = [1] if x.rank == 2 and axis == 0 else [0] if x.rank == 2 else []

    def aligned(vector):
        return op.Unsqueeze(vector, wide) if wide else vector

    picked = op.Gather(x, op.Gather(places, within, axis=0), axis=axis)
    terms = op.Mul(picked, aligned(numbers))
    where = aligned(op.Gather(places, out, axis=0))
    if wide:
        where = op.Expand(where, op.sizes(terms.shape))
    return op.ScatterElements(zeros, where, terms, axis=axis, reduction="add")


def summed(op, x, dim, keepdim=False):
    """Drop some axes of the elements' positions, and add up elements that then coincide."""
    held = op.elements(x)
    if held is None:
        return NotImplemented
    places, numbers = held[0], op.cast(held[1], op.result.dtype)
    axes = axes_of(dim, x.rank)
    kept = [axis for axis in range(x.rank) if axis not in axes]
    if not kept and not keepdim:
        return op.ReduceSum(numbers, [0], keepdims=0)
    if keepdim:
        places = op.Mul(places, op.constant([[int(axis in kept)] for axis in range(x.rank)]))
        return op.sparse(places, numbers, [x.shape[a] if a in kept else 1 for a in range(x.rank)])
    return op.sparse(op.Gather(places, kept, axis=0), numbers, [x.shape[axis] for axis in kept])
