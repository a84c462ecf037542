"""Eigenvalues, singular values, and their uses: rank, pseudo-inverse, least squares."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, is_value
from ._matrices import (
    eigen,
    eye_like,
    flipped,
    mirrored,
    positive,
    real_part,
    reflected,
    squared,
    unfilled,
    upright,
    wide,
    with_real_diagonal,
)

# Eigenvalues and singular values. Their vectors are unique up to a sign (or a rotation, if values
# are equal), which differs between libraries and processors, as PyTorch documents.


def _symmetric(op, a, uplo):
    """Complete a symmetric (or Hermitian) matrix from one of its halves."""
    upper = uplo.upper() == "U"
    half = with_real_diagonal(op, op.Trilu(wide(op, a), upper=int(upper)))
    other = op.Trilu(mirrored(op, half), op.constant(-1 if upper else 1), upper=int(not upper))
    return op.Add(half, other)


@converter("torch.linalg.eigvalsh", cases=[case(positive)])
def eigvalsh(op, A, UPLO="L"):
    return op.cast(eigen(op, _symmetric(op, A, UPLO))[0], op.result.dtype)


@converter("torch.linalg.eigh", cases=[])  # its vectors are known up to their signs
@converter("torch.ops.aten._linalg_eigh", cases=[case(positive, compute_v=False)])
def eigh(op, A, UPLO="L", compute_v=True):
    values, vectors = eigen(op, _symmetric(op, A, UPLO))
    vectors = op.cast(vectors, op.result[1].dtype) if compute_v else unfilled(op, op.result[1])
    return op.cast(values, op.result[0].dtype), vectors


def _squares(op, a):
    """Return a^H a or a a^H, the smaller one: its eigenvalues are the squared singular values."""
    x, y = wide(op, a), mirrored(op, wide(op, a))
    return op.MatMul(y, x) if _is_tall(op, a) else op.MatMul(x, y)


def _turned(op, a):
    """Return A @ V and V of a tall float64 matrix; V is unique up to signs.

    Squares in float64 leave the digits of a float32, enough for float32 inputs. Their negatives
    sort the longest column first and keep the order of equal ones, so a zero matrix has equal U
    and V.
    """
    if _is_wide(a.dtype):
        return upright(op, a)
    _, v = eigen(op, op.Neg(op.MatMul(mirrored(op, wide(op, a)), wide(op, a))))
    return op.MatMul(wide(op, a), v), v


def _is_wide(dtype):
    return dtype in (torch.float64, torch.complex128)


def singular_values(op, a):
    if _is_wide(a.dtype):
        w, _ = upright(op, a if _is_tall(op, a) else flipped(op, a))
        values = op.Sqrt(op.ReduceSum(squared(op, w), [a.rank - 2], keepdims=0))
    else:
        values, _ = eigen(op, _squares(op, a))
        values = op.Sqrt(op.Max(values, op.constant(0, torch.float64)))
        values = op.Slice(values, [-1], [-(2**62)], [values.rank - 1], [-1])
    return op.cast(_first(op, values, _smaller_side(a)), a.dtype.to_real())


def _first(op, x, count):
    """Return the first columns if there may be more."""
    if op.same(x.shape[-1], count):
        return x
    return op.Slice(x, [0], op.sizes([count]), [x.rank - 1])


@converter("torch.linalg.svdvals", cases=[case("float32[n,3,4]")])
def svdvals(op, A, *, driver=None):
    return singular_values(op, A)


def _is_tall(op, a):
    """Return whether rows are at least as many as columns; sizes may be known at run time only."""
    rows, columns = a.shape[-2:]
    return op.same(rows, columns) or not op.same(_smaller_side(a), rows)


def _smaller_side(a):
    return min(a.shape[-2], a.shape[-1])


@converter("torch.linalg.svd", cases=[])  # its vectors are known up to their signs
def full_svd(op, A, full_matrices=True, *, driver=None):
    return svd(op, op.cast(A, op.result[0].dtype), full_matrices)  # autocast widens


@converter("torch.ops.aten._linalg_svd", cases=[case("float32[n,3,4]", compute_uv=False)])
def svd(op, A, full_matrices=False, compute_uv=True, *, driver=None):
    if not compute_uv:
        u, _, v = op.result
        return unfilled(op, u), singular_values(op, A), unfilled(op, v)
    tall = _is_tall(op, A)
    s = singular_values(op, A)
    u, v = _singular_vectors(op, A if tall else mirrored(op, A))
    if not full_matrices:
        u, v = (_first(op, x, _smaller_side(A)) for x in (u, v))
    u, v = (op.cast(x, A.dtype) for x in ((u, v) if tall else (v, u)))
    return u, s, mirrored(op, v)


def _singular_vectors(op, a):
    """Return U and V of a tall matrix: U from a @ V, whose columns are orthogonal."""
    turned, v = _turned(op, a)
    size, a = _smaller_side(a), wide(op, a)
    q, r, _, _ = reflected(op, _first(op, turned, size))
    r = real_part(op, op.Slice(r, [0], op.sizes([size]), [a.rank - 2]))
    diagonal = op.ReduceSum(op.Mul(r, eye_like(op, r, size)), [a.rank - 2])
    signs = op.Where(op.Less(diagonal, 0), op.constant(-1, r.dtype), 1)
    rows = op.sizes([*a.shape[:-2], 1, a.shape[-2] - size])
    signs = op.Concat(signs, op.Expand(op.constant(1, r.dtype), rows), axis=a.rank - 1)
    return op.Mul(q, signs), v


def _pseudo_inverse(op, a, dtype, limit=None):
    """Compute V / s U^H in float64; the signs of the vectors cancel."""
    tall, other = _is_tall(op, a), mirrored(op, a)
    if _is_wide(dtype):
        turned, v = upright(op, a if tall else other)
        squares = op.ReduceSum(squared(op, turned), [a.rank - 2], keepdims=0)
        places = counted(op, squares.shape[-1])
        inverse = _inverted(op, squares, limit, op.Less(places, op.constant(_smaller_side(a))))
        x = op.MatMul(op.Mul(v, op.Unsqueeze(inverse, [-2])), mirrored(op, turned))
        return x if tall else mirrored(op, x)
    # From the smaller of A^H A and A A^H.
    squares, v = eigen(op, op.MatMul(other, a) if tall else op.MatMul(a, other))
    count, sure = squares.shape[-1], _smaller_side(a)
    places = counted(op, count)
    inverse = _inverted(op, squares, limit, op.GreaterOrEqual(places, op.constant(count - sure)))
    square = op.MatMul(op.Mul(v, op.Unsqueeze(inverse, [-2])), mirrored(op, v))
    return op.MatMul(square, other) if tall else op.MatMul(other, square)


def _inverted(op, squares, limit, sure):
    """Return 1 / squares of singular values; 0 for those below the limit or not `sure`.

    Beyond the smaller side of a matrix, they are 0 except for rounding.
    """
    keep = op.And(op.Greater(squares, 0), sure)
    if limit is not None:
        lengths = op.Sqrt(op.Max(squares, op.constant(0, squares.dtype)))
        keep = op.And(op.Greater(lengths, limit(squares)), sure)
    return op.Where(keep, op.Div(1, op.Where(keep, squares, 1)), 0)


@converter("torch.pinverse", cases=[case("float32[n,4,3]")])
@converter("torch.linalg.pinv",
           cases=[case("float32[n,4,3]"), case("float32[n,3,4]"), case(positive, hermitian=True)])  # fmt: skip
def pinv(op, A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    rows, columns = A.shape[-2:]
    if any(type(n) is int and n == 0 for n in A.shape):
        return op.Expand(op.constant(0, A.dtype), op.sizes([*A.shape[:-2], columns, rows]))
    a = _symmetric(op, A, "L") if hermitian else wide(op, A)

    def limit(squares):
        values = op.Sqrt(op.Max(squares, op.constant(0, squares.dtype)))
        return _limit(op, A, values, atol, rcond if rtol is None else rtol)

    return op.cast(_pseudo_inverse(op, a, A.dtype, limit), A.dtype)


@converter("torch.linalg.lstsq",
           cases=[case("float32[n,4,3]", "float32[n,4,2]"), case("float32[n,3,4]", "float32[n,3,2]"),
                  case("float32[4,3]", "float32[4,2]", driver="gels")])  # fmt: skip
def lstsq(op, input, b, rcond=None, *, driver=None):
    """Compute the least-squares solution of minimum norm."""
    _, residuals, rank, values = op.result
    a = wide(op, input)
    vector = b.rank < input.rank
    right = op.Unsqueeze(wide(op, b), [-1]) if vector else wide(op, b)

    def limit(squares):
        lengths = op.Sqrt(op.Max(squares, op.constant(0, squares.dtype)))
        return _limit(op, input, lengths, None, rcond)

    # "gels" assumes full rank and does not check it.
    x = op.MatMul(_pseudo_inverse(op, a, input.dtype, None if driver == "gels" else limit), right)
    left = unfilled(op, residuals)
    if residuals.shape != (0,):
        off = op.Sub(op.MatMul(a, x), right)
        left = op.ReduceSum(squared(op, off), [off.rank - 2], keepdims=0)
        left = op.cast(left, residuals.dtype)
    x = op.Squeeze(x, [-1]) if vector else x
    return (
        op.cast(x, input.dtype),
        left,
        unfilled(op, rank) if rank.shape == (0,) else matrix_rank(op, input, rtol=rcond),
        unfilled(op, values) if values.shape == (0,) else singular_values(op, input),
    )


def _limit(op, a, values, atol, rtol):
    """Return the limit up to which singular values count as 0."""
    if rtol is None:
        given = atol is not None and (is_value(atol) or atol > 0)
        rtol = 0 if given else torch.finfo(a.dtype).eps * max(a.shape[-2], a.shape[-1])

    def each(x):
        x = op.cast(x, values.dtype)
        return op.Unsqueeze(x, [-1]) if x.rank else x

    limit = op.Mul(op.ReduceMax(values, [values.rank - 1]), each(rtol))
    return limit if atol is None else op.Max(limit, each(atol))


@converter("torch.linalg.matrix_rank", cases=[case("float32[n,4,3]")])
def matrix_rank(op, A, tol=None, hermitian=False, *, atol=None, rtol=None):
    if any(type(n) is int and n == 0 for n in A.shape):
        return op.Expand(op.constant(0), op.sizes(A.shape[:-2]))
    values = _lengths(op, A, hermitian)
    limit = _limit(op, A, values, tol if atol is None else atol, 0 if tol is not None else rtol)
    return op.ReduceSum(
        op.cast(op.Greater(values, limit), torch.int64), [values.rank - 1], keepdims=0
    )


def _lengths(op, a, hermitian=False):
    if not hermitian:
        return singular_values(op, a)
    return op.Abs(op.cast(eigen(op, _symmetric(op, a, "L"))[0], a.dtype.to_real()))
