"""Systems of equations, inverses and determinants, computed in loops."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, loop
from ._matrices import (
    direction,
    eliminated,
    eye_like,
    factored,
    flipped,
    positive,
    square,
    substituted,
    wide,
)


def _is_vector(op, a, b):
    return b.rank == 1 or (b.rank == a.rank - 1 and op.same(b.shape, a.shape[:-1]))


def _solve(op, a, b, left, dtype):
    vector = _is_vector(op, a, b)
    b = op.Unsqueeze(b, [-1]) if vector else b
    if not left:
        a, b = flipped(op, a), flipped(op, b)
    x, info = eliminated(op, a, b)
    x = op.cast(x, dtype)
    x = x if left else flipped(op, x)
    return op.Squeeze(x, [-1]) if vector else x, op.cast(info, torch.int32)


@converter("torch.linalg.solve", cases=[case(square, "float32[3,n]")])
def solve(op, A, B, *, left=True):
    return _solve(op, A, B, left, A.dtype)[0]


# The forms that end in _ex also tell which matrices have no solution, as LAPACK does: info is 0, or
# the step, counted from 1, whose pivot is 0.


@converter("torch.linalg.solve_ex", cases=[case(square, "float32[3]")])
def solve_ex(op, A, B, *, left=True, check_errors=False):
    return _solve(op, A, B, left, A.dtype)


@converter("torch.ops.aten._linalg_solve_ex", cases=[case(square, "float32[3,2]")])
def solve_with_factors(op, A, B, *, left=True, check_errors=False):
    """Convert the operator behind solve, which returns the factors as well."""
    lu, pivots, info = factored(op, A if left else flipped(op, A))
    x = _solve(op, A, B, left, A.dtype)[0]
    return x, op.cast(lu, A.dtype), op.cast(pivots, torch.int32), op.cast(info, torch.int32)


@converter("torch.linalg.inv", "torch.inverse", cases=[case(square)])
def inv(op, A):
    return inv_ex(op, A)[0]


@converter("torch.linalg.inv_ex", cases=[case(square)])
def inv_ex(op, A, *, check_errors=False):
    x, info = eliminated(op, A, eye_like(op, wide(op, A), A.shape[-1]))
    return op.cast(x, A.dtype), op.cast(info, torch.int32)


def _triangle(op, a, upper, unit):
    a = op.Trilu(wide(op, a), upper=int(upper))
    if not unit:
        return a
    one = eye_like(op, a, a.shape[-1])
    return op.Where(op.cast(one, torch.bool), 1, a)


@converter("torch.linalg.solve_triangular", cases=[case(square, "float32[3,n]", upper=True)])
def solve_triangular(op, A, B, *, upper, left=True, unitriangular=False):
    a = _triangle(op, A, upper, unitriangular)
    if left:
        return op.cast(substituted(op, a, B, upper), A.dtype)
    x = substituted(op, flipped(op, a), flipped(op, B), not upper)
    return flipped(op, op.cast(x, A.dtype))


@converter("torch.triangular_solve", cases=[case("float32[3,n]", square)])
def triangular_solve(op, b, A, upper=True, transpose=False, unitriangular=False):
    a = _triangle(op, A, upper, unitriangular)
    x = substituted(op, flipped(op, a) if transpose else a, b, upper != transpose)
    return op.cast(x, A.dtype), A


# Determinants.


@converter("torch.linalg.det", "torch.det", cases=[case("float32[n,3,3]")])
def det(op, A):
    size = A.shape[-1]
    if type(size) is int and size == 0:
        return op.Expand(op.constant(1, A.dtype), op.sizes(A.shape[:-2]))
    if A.dtype == torch.float32:
        return op.Det(A)
    signs, diagonal = _signs_and_diagonal(op, A)  # onnxruntime's Det takes no other dtypes
    return op.cast(_product(op, op.Mul(signs, diagonal)), A.dtype)


def _signs_and_diagonal(op, a):
    lu, pivots, _ = factored(op, a)
    steps = counted(op, a.shape[-1])
    one = op.cast(op.Equal(op.Unsqueeze(steps, [1]), steps), torch.float64)
    diagonal = op.ReduceSum(op.Mul(lu, one), [lu.rank - 1], keepdims=0)
    moved = op.cast(op.Not(op.Equal(pivots, op.Add(steps, 1))), torch.float64)
    return op.Sub(1, op.Mul(moved, 2)), diagonal


def _product(op, x):
    """Multiply all numbers along the last axis."""
    if not x.dtype.is_complex:
        return op.ReduceProd(x, [x.rank - 1], keepdims=0)
    one = op.Expand(op.constant(1, x.dtype), op.sizes(x.shape[:-1]))
    last = x.rank - 1
    return loop(op, x.shape[-1], [one], lambda i, y: [op.Mul(y, op.Gather(x, i, axis=last))])[0]


def _sign_and_log(op, a):
    signs, diagonal = _signs_and_diagonal(op, a)
    signs = op.Mul(direction(op, diagonal), signs)
    log = op.ReduceSum(op.Log(op.Abs(diagonal)), [diagonal.rank - 1], keepdims=0)
    return op.cast(_product(op, signs), a.dtype), op.cast(log, a.dtype.to_real())


@converter("torch.linalg.slogdet", "torch.slogdet", cases=[case("float32[n,3,3]")])
def slogdet(op, A):
    return _sign_and_log(op, A)


@converter("torch.logdet", cases=[case(positive)])
def logdet(op, input):
    sign, log = slogdet(op, input)
    return op.Where(op.Less(sign, 0), float("nan"), log)
