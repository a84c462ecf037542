"""What tensors make together whose axes have letters, as those of torch.einsum have.

An operand is a value and its letters. onnxruntime's Einsum ends the process where a batch has no
elements; what is said here is as fast, or faster.
"""

from __future__ import annotations

from functools import reduce
from operator import mul

from hx.lazy import torch

from ._common import is_one, reshaped


def summed(op, operand, kept):
    """An operand without the letters that nobody asks for."""
    x, letters = operand
    gone = [i for i, c in enumerate(letters) if c not in kept]
    x = op.ReduceSum(x, gone, keepdims=0) if gone else x
    return x, [c for c in letters if c in kept]


def ordered(op, operand, letters):
    """An operand's value, with its axes in the order of `letters`."""
    x, own = operand
    order = [own.index(c) for c in letters]
    return x if order == sorted(order) else op.Transpose(x, perm=order)


def product(op, left, right, out):
    """Two operands as one with the letters `out`: multiplied, and summed over the others."""
    left, right = _without_ones(op, left, right, out), _without_ones(op, right, left, out)
    left, right = summed(op, left, [*right[1], *out]), summed(op, right, [*left[1], *out])
    batch = [c for c in out if c in left[1] and c in right[1]]
    inner = [c for c in left[1] if c in right[1] and c not in out]
    rows, columns = ([c for c in out if c in own and c not in batch] for _, own in (left, right))
    if _is_better_swapped(left, right, rows, columns, inner, out):
        left, right, rows, columns = right, left, columns, rows
    if not inner and not (len(rows) == len(columns) == 1 and out == [*batch, *rows, *columns]):
        return op.Mul(_spread(op, left, out), _spread(op, right, out))
    if inner and not rows and not columns and not _rounds_each(left[0].dtype):
        both = [_spread(op, each, [*batch, *inner]) for each in (left, right)]
        return op.ReduceSum(op.Mul(*both), [len(batch) + i for i in range(len(inner))], keepdims=0)
    left, right = _stretched(op, left, right, inner), _stretched(op, right, left, inner)
    # Without a batch, rows may lie along any number of axes, and columns along none.
    flat = not batch and bool(inner)
    column = not flat or bool(columns) or _may_be_none(left, inner)
    x = _matrices(op, left, batch, [*([c] for c in rows), inner] if flat else [rows, inner], inner)
    y = _matrices(op, right, batch, [inner, columns] if column else [inner], inner)
    z = op.MatMul(x, y)
    if len(columns) > 1 or (batch and len(rows) > 1):
        sizes = [*_sizes(left, rows), *_sizes(right, columns)]
        z = reshaped(op, z, [*z.shape[: len(batch)], *sizes])
    else:
        gone = [-2] * (not flat and not rows) + [-1] * (column and not columns)
        z = op.Squeeze(z, [z.rank + axis for axis in gone]) if gone else z
    return ordered(op, (z, [*batch, *rows, *columns]), out)


def _is_better_swapped(left, right, rows, columns, inner, out):
    """Whether the result, or else the only one that is more than a vector, then need not be turned."""
    if rows and columns:
        return out.index(columns[0]) < out.index(rows[0])
    if len(rows) == 1:
        return left[1][-1] not in inner
    return bool(columns) and right[1][-1] in inner


def _rounds_each(dtype):
    """Whether products would be rounded before they are added up."""
    return dtype in (torch.float16, torch.bfloat16)


def _without_ones(op, operand, other, out):
    """An operand without axes of 1 that meet a longer one, and are summed: that one is summed."""
    x, letters = operand
    lengths = dict(zip(other[1], other[0].shape))
    gone = [
        i
        for i, (c, n) in enumerate(zip(letters, x.shape))
        if c in lengths and c not in out and is_one(n) and not is_one(lengths[c])
    ]
    x = op.Squeeze(x, gone) if gone else x
    return x, [c for i, c in enumerate(letters) if i not in gone]


def _stretched(op, operand, other, inner):
    """An operand that is as long as the other one where both are summed, and it may have 1 there."""
    x, letters = operand
    lengths = dict(zip(other[1], other[0].shape))
    sizes = [
        lengths[c] if c in inner and type(n) is not int and not op.same(n, lengths[c]) else 1
        for c, n in zip(letters, x.shape)
    ]
    if all(map(is_one, sizes)):
        return operand
    y = op.Expand(x, op.sizes(sizes))
    y.sized([n if is_one(m) else _common(op, n, m) for n, m in zip(x.shape, sizes)])
    return y, letters


def _common(op, n, m):
    """The size that two have in common, either of which may be 1, or both 0."""
    smaller = n + m - op.larger(n, m)
    return n * m // op.larger(smaller, 1)


def _spread(op, operand, out):
    """An operand with an axis for each letter of `out`, which it is broadcast to; ready for Mul."""
    x = ordered(op, operand, [c for c in out if c in operand[1]])
    first = min((out.index(c) for c in operand[1]), default=len(out))
    missing = [i - first for i, c in enumerate(out) if i > first and c not in operand[1]]
    return op.Unsqueeze(x, missing) if missing else x


def _matrices(op, operand, batch, groups, inner):
    """An operand with an axis for each letter of the batch, and one for each group of letters."""
    x = _turned(op, operand, [*batch, *(c for group in groups for c in group)], inner)
    if any(len(group) > 1 for group in groups):
        sizes = [reduce(mul, _sizes(operand, group), 1) for group in groups]
        return reshaped(op, x, [*x.shape[: len(batch)], *sizes])
    missing = [len(batch) + i for i, group in enumerate(groups) if not group]
    return op.Unsqueeze(x, missing) if missing else x


def _turned(op, operand, letters, inner):
    """`ordered`, for a product of matrices. onnxruntime makes one operator of both, which fails
    where there is nothing to add up, or nothing in the first axis, and that lies in the matrix. It
    does not where an axis is put in before and taken out behind.
    """
    x, own = operand
    first = own[:1] if letters[0] not in own[:1] else []
    if len(own) < 3 or own == letters or not _may_be_none(operand, [*first, *inner]):
        return ordered(op, operand, letters)
    return op.Squeeze(ordered(op, (op.Unsqueeze(x, [0]), ["", *own]), ["", *letters]), [0])


def _may_be_none(operand, letters):
    return any(type(n) is not int for n in _sizes(operand, letters))


def _sizes(operand, letters):
    x, own = operand
    return [x.shape[own.index(c)] for c in letters]
