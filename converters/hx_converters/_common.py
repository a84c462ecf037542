"""Shared helpers of converters: PyTorch's type promotion, and axes in every form it accepts."""

from __future__ import annotations

import functools
import math

from hx.lazy import torch


def result_type(*xs):
    """The dtype that PyTorch computes in when it meets values and Python numbers."""
    return _promotion(torch.get_default_dtype(), *map(_kind, xs))


def _kind(x):
    if hasattr(x, "dtype"):
        return x.dtype, min(x.rank, 1)
    return next(kind for kind in (bool, complex, float, int) if isinstance(x, kind))


@functools.cache
def _promotion(_default, *kinds):
    first, *rest = map(_stand_in, kinds)
    for other in rest:
        dtype = torch.result_type(first, other)
        first = torch.empty((1,), dtype=dtype, device="meta")
    return first.dtype


def _stand_in(kind):
    if isinstance(kind, type):
        return kind(1)
    dtype, rank = kind
    return torch.empty((1,) * rank, dtype=dtype, device="meta")


def promoted(op, *xs):
    """The values, all cast to the dtype that PyTorch computes in."""
    dtype = result_type(*xs)
    return [op.cast(wrapped(x, dtype), dtype) for x in xs]


def as_result(op, *xs):
    """The values, all cast to the dtype of the result."""
    dtype = op.result.dtype
    return [op.cast(wrapped(x, dtype), dtype) for x in xs]


def scaled(op, x, factor):
    """Multiply by a factor: a number, or a tensor that holds one, possibly of another dtype."""
    return x if op.same(factor, 1) else op.Mul(x, op.cast(factor, x.dtype))


def wrapped(x, dtype):
    """Return an integer as PyTorch uses it beside a tensor, without bits beyond the dtype."""
    if type(x) is not int or dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return x
    ends = torch.iinfo(dtype)
    return x if ends.min <= x <= ends.max else (x - ends.min) % 2**ends.bits + ends.min


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


def fixed_pads(op, x, begins, ends, value=0):
    """Return x and pads that fit an attribute; pads that depend on a size are applied to x."""
    if all(type(p) is int for p in (*begins, *ends)):
        return x, [*begins, *ends]
    front = [0] * (x.rank - len(begins))
    x = op.Pad(x, op.sizes([*front, *begins, *front, *ends]), op.constant(value, x.dtype))
    return x, [0] * (len(begins) + len(ends))


def is_value(x):
    """Return whether an argument is a tensor, not a Python number."""
    return hasattr(x, "dtype") and hasattr(x, "rank")


def is_one(size):
    """Return whether a size is known to be 1; a size that may change asks no question."""
    return type(size) is int and size == 1


def scalars_too(convert):
    """Extend a converter that works along an axis to tensors without axes, as PyTorch does.

    Such tensors get an axis of 1, which the result loses again.
    """

    @functools.wraps(convert)
    def either(op, input, *args, **kwargs):
        if input.rank:
            return convert(op, input, *args, **kwargs)

        def lifted(x):
            return op.Unsqueeze(x, [0]) if is_value(x) and x.rank == 0 else x

        y = convert(op, lifted(input), *map(lifted, args),
                    **{k: lifted(v) for k, v in kwargs.items()})  # fmt: skip
        if y is NotImplemented:
            return y

        def lowered(v):
            return op.Squeeze(v, [0]) if v.rank else v

        return tuple(map(lowered, y)) if isinstance(y, tuple) else lowered(y)

    return either


def filled(op, number, like):
    """A tensor of one number, with the shape and dtype of another."""
    return op.Expand(op.constant(number, like.dtype), op.sizes(like.shape))


def counted(op, size, dtype=None):
    """0, 1, ... size - 1."""
    steps = op.Range(0, op.constant(size), 1)
    return steps if dtype is None else op.cast(steps, dtype)


def along(op, vector, axis, rank):
    """A vector laid along one axis of a tensor of some rank, ready to be broadcast."""
    trailing = rank - 1 - axis
    return op.Unsqueeze(vector, list(range(1, 1 + trailing))) if trailing else vector


def moved(op, x, source, destination):
    """x with one axis moved to another position."""
    order = [a for a in range(x.rank) if a != source]
    order.insert(destination, source)
    return x if source == destination else op.Transpose(x, perm=order)


def lowest(dtype):
    """The number below all others of a dtype."""
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype == torch.bool else torch.iinfo(dtype).min


def highest(dtype):
    """The number above all others of a dtype."""
    if dtype.is_floating_point:
        return math.inf
    return True if dtype == torch.bool else torch.iinfo(dtype).max


_SUMS = {"CumSum", "ReduceMean", "ReduceSum"}
# Nodes that leave numbers unchanged.
MOVES = {"Expand", "Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


def sign_of_zeros(x):
    """Return 1 or -1 if PyTorch gives all zeros of x the same sign; else None.

    PyTorch starts a sum at 0, so a sum of -0.0 alone is 0; in onnxruntime it is -0.0.
    """
    node, sign = x.node, 1
    while node is not None and not node.domain:
        if node.op in _SUMS:
            return sign
        if node.op not in MOVES and node.op != "Neg" and not _keeps_small(node):
            return None
        sign = -sign if node.op == "Neg" else sign
        node = node.inputs[0].node
    return None


def _keeps_small(node):
    """Return whether a node is a cast that turns no nonzero number into 0."""
    if node.op != "Cast":
        return False
    before, after = node.inputs[0], node.outputs[0]
    wider = torch.promote_types(before.dtype, after.dtype) == after.dtype
    summed = before.node is not None and before.node.op in _SUMS  # of many numbers: see _sums.py
    return wider or (summed and after.dtype == torch.float32)


def below_zero(op, x):
    """Return where the sign is negative, -0.0 included."""
    sign = sign_of_zeros(x) if x.dtype.is_floating_point else 1
    if sign is not None:
        return op.Less(x, 0) if sign > 0 else op.LessOrEqual(x, 0)
    return op.Or(op.Less(x, 0), op.Less(op.Reciprocal(x), 0))


def reshaped(op, x, sizes):
    """x reshaped; a size of 0 means no elements (in ONNX's Reshape it means an unchanged size)."""
    empty = any(type(n) is int and n == 0 for n in sizes)
    return op.Reshape(x, op.sizes(sizes), **({"allowzero": 1} if empty else {}))


def loop(op, count, states, step, go_on=None):
    """Run `step(i, *states)` `count` times, or until `go_on(*states)` is false.

    States keep their shapes and dtypes; the last ones are returned. Complex states are carried as
    pairs of real numbers.
    """
    whole = [s.dtype.is_complex for s in states]
    carried = [op.pair(s) if z else s for s, z in zip(states, whole)]
    inputs = [op.input(torch.int64, ()), op.input(torch.bool, ())]
    inputs += [op.input(s.dtype, s.shape) for s in carried]

    def seen(values):
        return [op.joined(v) if z else v for v, z in zip(values, whole)]

    def once(i, _, *values):
        new = step(i, *seen(values))
        more = op.constant(True) if go_on is None else go_on(*new)
        return more, *(op.pair(v) if z else v for v, z in zip(new, whole))

    first = None if go_on is None else go_on(*states)
    trips = count if count is None or is_value(count) else op.constant(count)
    found = op.Loop(trips, first, *carried, body=op.body(once, *inputs), outputs=len(states))
    for value, state in zip(found, carried):
        value.sized(state.shape)
    return seen(found)


def unless_empty(op, size, make):
    """Return the values that `make()` lists; if a size is 0, zeros, and `make` does not run."""
    whole = op.body(make)
    nothing = op.body(lambda: [filled(op, 0, v) for v in whole.outputs])
    some = op.Greater(op.constant(size), 0)
    found = op.If(some, then_branch=whole, else_branch=nothing, outputs=len(whole.outputs))
    for value, inner in zip(found, whole.outputs):
        value.sized(inner.shape)
    return list(found)
