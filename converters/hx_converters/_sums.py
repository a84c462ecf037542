"""Reductions of many numbers.

onnxruntime adds one float32 after the other: the more there are, the fewer digits of the sum are
right. PyTorch adds parts, or carries more digits, and all of them are right.
"""

from __future__ import annotations

from math import prod

from hx.lazy import torch

MANY = 2**16  # beyond as many numbers, a sum of one after the other is off by 1e-6 and more
PART = 2**12  # up to as many, it is about as right as any

# Those that take the results of parts as they take the numbers.
_IN_PARTS = {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp"}


def wider(dtype):
    """The dtype in which PyTorch carries on what it rounds to another one at the end."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(dtype, dtype)


def are_many(op, dtype, sizes):
    """Whether a sum along axes of some sizes wants more care than onnxruntime takes."""
    return dtype in (torch.float32, torch.complex64) and prod(map(op.seen, sizes)) > MANY


def reduction(op, name, x, axes, keepdims=1):
    """A reduction along axes that are counted from the front.

    One of many numbers takes the last axes together first, and then what they left in a wider dtype.
    """
    reduce = getattr(op, name)
    if name not in _IN_PARTS or not are_many(op, x.dtype, [x.shape[a] for a in axes]):
        return reduce(x, axes, keepdims=keepdims)
    rest, part, count = sorted(axes), [], 1
    while count * op.seen(x.shape[rest[-1]]) <= PART:
        count *= op.seen(x.shape[rest[-1]])
        part.insert(0, rest.pop())
    x = reduce(x, part, keepdims=keepdims) if part else x
    return op.cast(reduce(op.cast(x, wider(x.dtype)), rest, keepdims=keepdims), x.dtype)
