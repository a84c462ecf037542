"""What many converters need: PyTorch's type promotion, and axes in all the forms it takes them."""

from __future__ import annotations

from hx.lazy import torch


def result_type(*xs):
    """The dtype that PyTorch computes in when it meets values and Python numbers."""
    stand_ins = [_stand_in(x) for x in xs]
    dtype = None
    if len(stand_ins) == 1:
        return stand_ins[0].dtype
    first, *rest = stand_ins
    for other in rest:
        dtype = torch.result_type(first, other)
        first = torch.empty((1,), dtype=dtype, device="meta")
    return dtype


def _stand_in(x):
    if hasattr(x, "dtype"):
        return torch.empty((1,) * min(x.rank, 1), dtype=x.dtype, device="meta")
    return float(x) if isinstance(x, float) else bool(x) if isinstance(x, bool) else 1


def promoted(op, *xs):
    """The values, all cast to the dtype that PyTorch computes in."""
    dtype = result_type(*xs)
    return [op.cast(x, dtype) for x in xs]


def as_result(op, *xs):
    """The values, all cast to the dtype of the result."""
    dtype = op.result.dtype
    return [op.cast(x, dtype) for x in xs]


def axes_of(dim, rank):
    """Axes as a list of positive ints; None and () mean all."""
    if dim is None:
        return list(range(rank))
    listed = [dim] if isinstance(dim, int) else list(dim)
    if not listed:
        return list(range(rank))
    return [int(d) % max(rank, 1) for d in listed]


def one_axis(dim, rank):
    return dim % max(rank, 1)


def pair(x, n=2):
    """An int or a sequence as `n` numbers."""
    if isinstance(x, int):
        return [x] * n
    listed = list(x)
    return listed * n if len(listed) == 1 else listed
