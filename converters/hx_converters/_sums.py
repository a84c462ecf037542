"""Reductions of many numbers.

onnxruntime adds one float32 after the other: the more there are, the fewer digits of the sum are
right. PyTorch adds partial sums, or carries more digits, and keeps full precision.
"""

from __future__ import annotations

from math import prod

from hx.lazy import torch

IMPRECISE_LENGTH = 2**16  # a sequential sum of more numbers has an error of 1e-6 and more
PRECISE_LENGTH = 2**12  # a sequential sum of up to this many is about as precise as any

# Reductions that apply to partial results in the same way as to numbers.
_IN_PARTS = {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp"}


def wider(dtype):
    """The dtype in which PyTorch accumulates before it rounds the result."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(dtype, dtype)


def are_many(op, dtype, sizes):
    """Return whether a sum over axes of these sizes needs more precision than onnxruntime gives."""
    return (
        dtype in (torch.float32, torch.complex64) and prod(map(op.seen, sizes)) > IMPRECISE_LENGTH
    )


def reduction(op, name, x, axes, keepdims=1):
    """Reduce along axes that are counted from the front.

    A reduction of many numbers first reduces the last axes, and then the rest in a wider dtype.
    """
    reduce = getattr(op, name)
    if name not in _IN_PARTS or not are_many(op, x.dtype, [x.shape[a] for a in axes]):
        return reduce(x, axes, keepdims=keepdims)
    rest, part, count = sorted(axes), [], 1
    while count * op.seen(x.shape[rest[-1]]) <= PRECISE_LENGTH:
        count *= op.seen(x.shape[rest[-1]])
        part.insert(0, rest.pop())
    x = reduce(x, part, keepdims=keepdims) if part else x
    return op.cast(reduce(op.cast(x, wider(x.dtype)), rest, keepdims=keepdims), x.dtype)
