"""Matrix factorizations: Cholesky, LU, QR."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted
from ._matrices import (
    cholesky,
    eye_like,
    factored,
    flipped,
    mirrored,
    permutation,
    positive,
    reflected,
    reflections,
    solved,
    square,
    substituted,
    unfilled,
    wide,
)


def _lu():
    return torch.linalg.lu_factor(square().roll(1, 0))[0]


def _pivots():
    return torch.linalg.lu_factor(square().roll(1, 0))[1]


_REFLECTED = (lambda: torch.geqrf(torch.eye(4)[:, 1:] + 0.3)[0],
              lambda: torch.geqrf(torch.eye(4)[:, 1:] + 0.3)[1])  # fmt: skip


@converter("torch.linalg.cholesky", "torch.cholesky", cases=[case(positive)])
def linalg_cholesky(op, input, upper=False):
    return cholesky_ex(op, input, upper=upper)[0]


@converter("torch.linalg.cholesky_ex", cases=[case(positive), case(positive, upper=True)])
def cholesky_ex(op, input, *, upper=False, check_errors=False):
    lower, info = cholesky(op, mirrored(op, input) if upper else input)
    lower = op.cast(lower, input.dtype)
    return mirrored(op, lower) if upper else lower, op.cast(info, torch.int32)


def _product(op, factor, upper):
    factor = wide(op, factor)
    other = mirrored(op, factor)
    return op.MatMul(other, factor) if upper else op.MatMul(factor, other)


@converter("torch.cholesky_solve", cases=[case("float32[3,n]", positive)])
def cholesky_solve(op, input, L, upper=False):
    factor = op.Trilu(wide(op, L), upper=int(upper))
    lower = mirrored(op, factor) if upper else factor
    x = substituted(op, lower, input, upper=False)
    return op.cast(substituted(op, mirrored(op, lower), x, upper=True), op.result.dtype)


@converter("torch.cholesky_inverse", cases=[case(positive)])
def cholesky_inverse(op, input, upper=False):
    factor = op.Trilu(wide(op, input), upper=int(upper))
    whole = _product(op, factor, upper)
    return op.cast(solved(op, whole, eye_like(op, whole, whole.shape[-1])), input.dtype)


@converter("torch.linalg.lu_factor_ex", "torch.ops.aten.linalg_lu_factor_ex",
           cases=[case("float32[n,3,4]")])  # fmt: skip
def lu_factor_ex(op, A, *, pivot=True, check_errors=False):
    if not pivot:
        return NotImplemented
    lu, pivots, info = factored(op, A)
    return op.cast(lu, A.dtype), op.cast(pivots, torch.int32), op.cast(info, torch.int32)


@converter("torch.linalg.lu_factor", cases=[case("float32[n,3,4]")])
def lu_factor(op, A, *, pivot=True):
    found = lu_factor_ex(op, A, pivot=pivot)
    return found if found is NotImplemented else found[:2]


# Determinants with the factors by which their derivatives are solved.


@converter("torch.ops.aten._linalg_det", cases=[case(square)])
def det_and_factors(op, A):
    return op.instead(lambda A: (torch.linalg.det(A), *_as_pytorch_factors(A)))


@converter("torch.ops.aten._linalg_slogdet", cases=[case(square)])
def slogdet_and_factors(op, A):
    return op.instead(lambda A: (*torch.linalg.slogdet(A), *_as_pytorch_factors(A)))


def _as_pytorch_factors(A):
    """Factor as PyTorch does: transpose a real row-major matrix, which then needs no copy."""
    return torch.linalg.lu_factor(A.mT if A.is_contiguous() and not A.is_complex() else A)


def _unpacked(op, lu, pivots):
    rows, columns = lu.shape[-2:]
    count = min(rows, columns)
    last = lu.rank - 1
    lower = op.Trilu(op.Slice(lu, [0], op.sizes([count]), [last]), op.constant(-1), upper=0)
    i, j = op.Unsqueeze(counted(op, rows), [1]), counted(op, count)
    lower = op.Add(lower, op.cast(op.Equal(i, j), lu.dtype))
    upper = op.Trilu(op.Slice(lu, [0], op.sizes([count]), [last - 1]), upper=1)
    return permutation(op, pivots, rows, lu.dtype), lower, upper


@converter("torch.linalg.lu", cases=[case("float32[n,3,4]")])
def lu(op, A, *, pivot=True):
    if not pivot:
        return NotImplemented
    packed, pivots, _ = factored(op, A)
    p, lower, upper = (op.cast(v, A.dtype) for v in _unpacked(op, packed, pivots))
    return p, lower, upper


@converter("torch.lu_unpack", cases=[case(_lu, _pivots)])
def lu_unpack(op, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    parts = _unpacked(op, LU_data, LU_pivots)
    asked = (unpack_pivots, unpack_data, unpack_data)
    return tuple(p if a else unfilled(op, r) for p, a, r in zip(parts, asked, op.result))


@converter("torch.linalg.lu_solve",
           cases=[case(_lu, _pivots, "float32[3,n]"),
                  case(_lu, _pivots, "float32[3,n]", adjoint=True),
                  case(_lu, _pivots, "float32[n,3]", left=False),
                  case(_lu, _pivots, "float32[n,3]", left=False, adjoint=True)])  # fmt: skip
def lu_solve(op, LU, pivots, B, *, left=True, adjoint=False):
    p, lower, upper = _unpacked(op, wide(op, LU), pivots)
    b = wide(op, B if left else flipped(op, B))
    if adjoint:  # the conjugate of A, transposed
        lower, upper = (flipped(op, mirrored(op, m)) for m in (lower, upper))
    if adjoint == left:
        x = substituted(op, flipped(op, upper), b, upper=False)
        x = op.MatMul(p, substituted(op, flipped(op, lower), x, upper=True))
    else:
        x = substituted(op, lower, op.MatMul(flipped(op, p), b), upper=False)
        x = substituted(op, upper, x, upper=True)
    return op.cast(x if left else flipped(op, x), LU.dtype)


@converter("torch.lu_solve", cases=[case("float32[3,n]", _lu, _pivots)])
def old_lu_solve(op, b, LU_data, LU_pivots):
    return lu_solve(op, LU_data, LU_pivots, b)


@converter("torch.linalg.qr", cases=[case("float32[n,4,3]"), case("float32[n,3,4]", "complete")])
def qr(op, A, mode="reduced"):
    q, r, _, _ = reflected(op, A)
    q, r = op.cast(q, A.dtype), op.Trilu(op.cast(r, A.dtype), upper=1)
    if mode != "complete":
        count = op.sizes([min(A.shape[-2], A.shape[-1])])
        q, r = op.Slice(q, [0], count, [A.rank - 1]), op.Slice(r, [0], count, [A.rank - 2])
    return (unfilled(op, op.result[0]) if mode == "r" else q), r


@converter("torch.qr", cases=[case("float32[n,4,3]"), case("float32[n,4,3]", False)])
def old_qr(op, input, some=True):
    return qr(op, input, "reduced" if some else "complete")


@converter("torch.geqrf", cases=[case("float32[n,4,3]")])
def geqrf(op, input):
    _, r, kept, factors = reflected(op, input)
    packed = op.Add(op.Trilu(r, upper=1), kept)
    return op.cast(packed, input.dtype), op.cast(factors, input.dtype)


@converter("torch.linalg.householder_product", "torch.orgqr", cases=[case(*_REFLECTED)])
def householder_product(op, input, tau):
    q = op.cast(reflections(op, input, tau), input.dtype)
    return op.Slice(q, [0], op.sizes([input.shape[-1]]), [input.rank - 1])


@converter("torch.ormqr", cases=[
    case(*_REFLECTED, "float32[4,n]"), case(*_REFLECTED, "float32[n,4]", False, True),
])  # fmt: skip
def ormqr(op, input, tau, other, left=True, transpose=False):
    q = reflections(op, input, tau)
    q = mirrored(op, q) if transpose else q
    x = wide(op, other)
    return op.cast(op.MatMul(q, x) if left else op.MatMul(x, q), input.dtype)
