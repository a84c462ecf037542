"""Contraction of tensors whose axes are named by letters, as in torch.einsum.

An operand is a value and its letters. onnxruntime's Einsum ends the process if a batch has no
elements; the nodes built here are as fast or faster.
"""

from __future__ import annotations

from functools import reduce
from operator import mul

from hx.lazy import torch

from ._common import is_one, reshaped


def summed(op, operand, kept):
    """Sum an operand over the letters that are not wanted."""
    x, letters = operand
    gone = [i for i, c in enumerate(letters) if c not in kept]
    x = op.ReduceSum(x, gone, keepdims=0) if gone else x
    return x, [c for c in letters if c in kept]


def ordered(op, operand, letters):
    """Transpose an operand's value so that its axes follow `letters`."""
    x, own = operand
    order = [own.index(c) for c in letters]
    return x if order == sorted(order) else op.Transpose(x, perm=order)


def product(op, left, right, out):
    """Multiply two operands and sum over all letters except `out`."""
    left, right = _without_ones(op, left, right, out), _without_ones(op, right, left, out)
    left, right = summed(op, left, [*right[1], *out]), summed(op, right, [*left[1], *out])
    batch, rows, columns, inner = _roles(left[1], right[1], out)
    if _is_better_swapped(left, right, rows, columns, inner, out):
        left, right, rows, columns = right, left, columns, rows
    if not inner and not (len(rows) == len(columns) == 1 and out == [*batch, *rows, *columns]):
        return op.Mul(_spread(op, left, out), _spread(op, right, out))
    if inner and not rows and not columns and not _rounds_each(left[0].dtype):
        both = [_spread(op, each, [*batch, *inner]) for each in (left, right)]
        return op.ReduceSum(op.Mul(*both), [len(batch) + i for i in range(len(inner))], keepdims=0)
    z = _matrix_product(op, left, right, batch, rows, columns, inner)
    return ordered(op, (z, [*batch, *rows, *columns]), out)


def _roles(left, right, out):
    """Return letters of the batch, of rows and columns of the result, and those summed over."""
    batch = [c for c in out if c in left and c in right]
    inner = [c for c in left if c in right and c not in out]
    rows, columns = ([c for c in out if c in own and c not in batch] for own in (left, right))
    return batch, rows, columns, inner


def _matrix_product(op, left, right, batch, rows, columns, inner):
    """Multiply by MatMul; the result has an axis for each letter of batch, rows and columns."""
    left, right = _stretched(op, left, right, inner), _stretched(op, right, left, inner)
    # Without a batch, rows may lie along any number of axes, and columns along none.
    flat = not batch and bool(inner)
    column = not flat or bool(columns) or _may_be_none(left, inner)
    x = _matrices(op, left, batch, [*([c] for c in rows), inner] if flat else [rows, inner], inner)
    y = _matrices(op, right, batch, [inner, columns] if column else [inner], inner)
    z = op.MatMul(x, y)
    if len(columns) > 1 or (batch and len(rows) > 1):
        sizes = [*_sizes(left, rows), *_sizes(right, columns)]
        return reshaped(op, z, [*z.shape[: len(batch)], *sizes])
    gone = [-2] * (not flat and not rows) + [-1] * (column and not columns)
    return op.Squeeze(z, [z.rank + axis for axis in gone]) if gone else z


def _is_better_swapped(left, right, rows, columns, inner, out):
    """Return whether swapping the operands saves transposing the result or the only matrix."""
    if rows and columns:
        return out.index(columns[0]) < out.index(rows[0])
    if len(rows) == 1:
        return left[1][-1] not in inner
    return bool(columns) and right[1][-1] in inner


def _rounds_each(dtype):
    """Return whether products would be rounded before they are summed."""
    return dtype in (torch.float16, torch.bfloat16)


def _without_ones(op, operand, other, out):
    """Drop an operand's summed axes of 1 that meet a longer axis: the longer one is summed."""
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
    """Broadcast an operand to the other one along summed axes where its size may be 1."""
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
    """Return the size to which two sizes broadcast; either may be 1, or both 0."""
    smaller = n + m - op.larger(n, m)
    return n * m // op.larger(smaller, 1)


def _spread(op, operand, out):
    """Give an operand an axis for each letter of `out`, ready to be broadcast by Mul."""
    x = ordered(op, operand, [c for c in out if c in operand[1]])
    first = min((out.index(c) for c in operand[1]), default=len(out))
    missing = [i - first for i, c in enumerate(out) if i > first and c not in operand[1]]
    return op.Unsqueeze(x, missing) if missing else x


def _matrices(op, operand, batch, groups, inner):
    """Reshape an operand to one axis for each letter of the batch and one for each letter group."""
    x = _turned(op, operand, [*batch, *(c for group in groups for c in group)], inner)
    if any(len(group) > 1 for group in groups):
        sizes = [reduce(mul, _sizes(operand, group), 1) for group in groups]
        return reshaped(op, x, [*x.shape[: len(batch)], *sizes])
    missing = [len(batch) + i for i, group in enumerate(groups) if not group]
    return op.Unsqueeze(x, missing) if missing else x


def _turned(op, operand, letters, inner):
    """Order axes as `ordered` does, for a matrix product.

    onnxruntime fuses Transpose and MatMul into one operator, which fails if there is nothing to
    sum, or if a first axis without elements lies in the matrix. An axis that is inserted before
    and removed after the transpose prevents the fusion.
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
