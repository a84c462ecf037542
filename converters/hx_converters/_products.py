"""Products of whole numbers, of which PyTorch keeps the lower bits.

onnxruntime reduces whole numbers in float64: it rounds what needs more than 53 bits, and ends at the
largest number of the dtype.
"""

from __future__ import annotations

from hx.lazy import torch

from ._common import counted, loop

EXACT = 53  # as many bits a float64 has
FEW = 8  # up to as many numbers are multiplied one by one


def are_exact(x, count):
    """Whether the product of as many numbers as x has along an axis fits in a float64."""
    if x.dtype == torch.bool:
        return True
    if x.dtype.is_floating_point:
        return False
    if type(count) is int and count * torch.iinfo(x.dtype).bits <= EXACT:
        return True
    return x.node is not None and x.node.op == "Cast" and are_exact(x.node.inputs[0], count)


def product(op, x, axis):
    """The product along an axis, which is gone then."""
    size = x.shape[axis]
    if type(size) is not int or size > FEW or not size:
        return _doubled(op, x, axis)
    found, *more = (op.Gather(x, op.constant(i), axis=axis) for i in range(size))
    for each in more:
        found = op.Mul(found, each)
    return found


def _doubled(op, x, axis):
    """From any number on, the product of 1, 2, 4... numbers, until that is all of them."""
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
    # A loop that asks behind its body goes round once: of up to one number, that changes nothing.
    return op.Gather(loop(op, None, start, step, go_on)[1], op.constant(0), axis=axis)
