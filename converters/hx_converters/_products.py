"""Products of integers, of which PyTorch keeps the lower bits.

onnxruntime reduces integers in float64: it rounds products of more than 53 bits, and saturates at
the largest number of the dtype.
"""

from __future__ import annotations

from hx.lazy import torch

from ._common import counted, loop

EXACT = 53  # bits in the mantissa of a float64
MULTIPLIED_ONE_BY_ONE = 8  # up to this count, numbers are multiplied one by one


def are_exact(x, count):
    """Return whether a product of `count` numbers of x fits exactly in a float64."""
    if x.dtype == torch.bool:
        return True
    if x.dtype.is_floating_point:
        return False
    if type(count) is int and count * torch.iinfo(x.dtype).bits <= EXACT:
        return True
    return x.node is not None and x.node.op == "Cast" and are_exact(x.node.inputs[0], count)


def product(op, x, axis):
    """Multiply along an axis and drop it."""
    size = x.shape[axis]
    if type(size) is not int or size > MULTIPLIED_ONE_BY_ONE or not size:
        return _doubled(op, x, axis)
    found, *more = (op.Gather(x, op.constant(i), axis=axis) for i in range(size))
    for each in more:
        found = op.Mul(found, each)
    return found


def _doubled(op, x, axis):
    """Compute products by doubling: of 1, 2, 4... neighbours, until one product holds them all."""
    size = x.shape[axis]
    one = op.Expand(
        op.constant(1, x.dtype), op.sizes([1 if a == axis else n for a, n in enumerate(x.shape)])
    )
    places, end = counted(op, size + 1), op.constant(size)

    def step(_, length, products):
        following = op.Gather(products, op.Min(op.Add(places, length), end), axis=axis)
        return op.Mul(length, 2), op.Mul(products, following)

    def go_on(length, products):
        return op.Less(length, end)

    start = [op.constant(1), op.Concat(x, one, axis=axis)]
    # A loop that tests after its body runs once; for at most one number, that changes nothing.
    return op.Gather(loop(op, None, start, step, go_on)[1], op.constant(0), axis=axis)
