"""Norms and functions of matrices."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import loop, one_axis
from ._matrices import eye_like, square, wide
from ._sums import reduction
from .linalg_solving import inv
from .linalg_spectra import singular_values
from .reduction import vector_norm

# Norms.


@converter("torch.linalg.matrix_norm",
           cases=[case("float32[n,3,4]", o) for o in ("fro", "nuc", 1, 2, -2, float("inf"))])  # fmt: skip
def matrix_norm(op, A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    kind = op.result.dtype
    x = op.cast(A, kind.to_complex() if A.dtype.is_complex else kind)
    y = _matrix_norm(op, x, ord, dim, keepdim)
    # For a norm, the largest of no elements is 0.
    return op.Max(y, 0) if any(type(n) is int and n == 0 for n in A.shape) else y


def _matrix_norm(op, x, ord, dim, keepdim):
    first, second = (one_axis(d, x.rank) for d in dim)
    if ord == "fro":
        return reduction(op, "ReduceL2", x, [first, second], int(keepdim))
    if ord in ("nuc", 2, -2):
        rest = [a for a in range(x.rank) if a not in (first, second)]
        values = singular_values(op, op.Transpose(x, perm=[*rest, first, second]))
        kind = {"nuc": "ReduceSum", 2: "ReduceMax", -2: "ReduceMin"}[ord]
        y = getattr(op, kind)(values, [values.rank - 1], keepdims=0)
        return op.Unsqueeze(y, sorted([first, second])) if keepdim else y
    inner, outer = (first, second) if abs(ord) == 1 else (second, first)
    sums = op.ReduceSum(op.Abs(x), [inner])
    return getattr(op, "ReduceMax" if ord > 0 else "ReduceMin")(
        op.Squeeze(sums, [inner]) if not keepdim else sums,
        [outer - (not keepdim and inner < outer)], keepdims=int(keepdim),
    )  # fmt: skip


@converter(
    "torch.linalg.norm", cases=[case("float32[n,3]", "fro", [0, 1]), case("float32[n,3]", 3, 1)]
)
def norm(op, A, ord=None, dim=None, keepdim=False, *, dtype=None):
    axes = [dim] if isinstance(dim, int) else dim
    if ord is None or (axes is not None and len(axes) == 1) or (axes is None and A.rank < 2):
        return vector_norm(op, A, 2 if ord is None else ord, dim, keepdim)
    return matrix_norm(op, A, ord, (0, 1) if axes is None else axes, keepdim)


@converter("torch.linalg.cond", cases=[case(square), case(square, "fro")])
def cond(op, A, p=None):
    dtype = op.result.dtype
    if p in (None, 2, -2):
        values = singular_values(op, A)
        axis = values.rank - 1
        large, small = (op.Squeeze(op.Slice(values, [a], [b], [axis]), [axis])
                        for a, b in ((0, 1), (-1, 2**62)))  # fmt: skip
        return op.Div(large, small) if p != -2 else op.Div(small, large)
    both = [op.cast(matrix_norm(op, v, p), dtype) for v in (A, inv(op, A))]
    return op.Mul(*both)


# Functions of matrices.

LAST = 18  # power of the series: of what is below 1, the next ones are below the last digit


@converter("torch.linalg.matrix_exp", "torch.matrix_exp", cases=[case("float32[n,3,3]")])
def matrix_exp(op, A):
    """Compute exp of a matrix: a series for a halved matrix, squared as often as it was halved."""
    a = wide(op, A)
    n = A.shape[-1]
    norm = op.ReduceSum(op.Abs(a), [a.rank - 2])
    norm = op.Max(op.ReduceMax(norm, keepdims=0), op.constant(1e-30, torch.float64))
    halvings = op.Max(
        op.Ceil(op.Div(op.Log(norm), 0.6931471805599453)), op.constant(0, torch.float64)
    )
    x = op.Div(a, op.Pow(op.constant(2, torch.float64), halvings))
    one = eye_like(op, a, n)
    total = one
    # Times the factorial of the last power, which float64 holds to the digit: a product that is
    # divided there and then loses half of its digits in onnxruntime, which fuses the two in float32.
    for k in range(LAST, 0, -1):
        total = op.Add(
            op.MatMul(x, total), op.Mul(one, math.factorial(LAST) // math.factorial(k - 1))
        )
    total = op.Div(total, math.factorial(LAST))
    (y,) = loop(op, op.cast(halvings, torch.int64), [total], lambda _, m: (op.MatMul(m, m),))
    return op.cast(y, A.dtype)


@converter("torch.linalg.cross", cases=[case("float32[n,3]", "float32[n,3]", dim=1)])
def cross(op, input, other, *, dim=-1):
    x, y = (op.cast(v, op.result.dtype) for v in (input, other))
    rank = max(x.rank, y.rank)
    axis = one_axis(dim, rank)

    def turned(v, order):
        return op.Gather(v, op.constant(order), axis=axis - rank + v.rank)

    return op.Sub(op.Mul(turned(x, [1, 2, 0]), turned(y, [2, 0, 1])),
                  op.Mul(turned(x, [2, 0, 1]), turned(y, [1, 2, 0])))  # fmt: skip


@converter("torch.cross", cases=[case("float32[n,3]", "float32[n,3]", 1)])
def old_cross(op, input, other, dim=None):
    if dim is None:  # the first axis of 3
        dim = next((a for a, n in enumerate(input.shape) if type(n) is int and n == 3), None)
    if dim is None:
        op.refuse("cross takes the first axis of 3, and here every such axis may change its size",
                  "say which one is meant: torch.cross(a, b, dim=1)")  # fmt: skip
    return cross(op, input, other, dim=dim)
