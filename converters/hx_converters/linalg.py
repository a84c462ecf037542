"""torch.linalg: solving, inverting, factoring. What is unique, ONNX says by loops."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, is_value, loop, one_axis
from ._matrices import (
    cholesky,
    eigen,
    eliminated,
    eye_like,
    factored,
    flipped,
    permutation,
    reflected,
    reflections,
    solved,
    upright,
    wide,
)
from .reduction import vector_norm


def _square():
    return torch.randn(3, 3) + 3 * torch.eye(3)


def _positive():
    return torch.eye(3) + 0.1 * torch.ones(3, 3)


def _lu():
    return torch.linalg.lu_factor(_square().roll(1, 0))[0]


def _pivots():
    return torch.linalg.lu_factor(_square().roll(1, 0))[1]


_REFLECTED = (lambda: torch.geqrf(torch.eye(4)[:, 1:] + 0.3)[0],
              lambda: torch.geqrf(torch.eye(4)[:, 1:] + 0.3)[1])  # fmt: skip


def _empty(op, spec):
    return op.constant(torch.empty(tuple(spec.shape), dtype=spec.dtype))


# Solving.


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


@converter("torch.linalg.solve", cases=[case(_square, "float32[3,n]")])
def solve(op, A, B, *, left=True):
    return _solve(op, A, B, left, A.dtype)[0]


# The forms that end in _ex also tell which matrices have no answer, as LAPACK does: its info is 0,
# or the step, counted from 1, that found nothing to divide by.


@converter("torch.linalg.solve_ex", cases=[case(_square, "float32[3]")])
def solve_ex(op, A, B, *, left=True, check_errors=False):
    return _solve(op, A, B, left, A.dtype)


@converter("torch.ops.aten._linalg_solve_ex", cases=[case(_square, "float32[3,2]")])
def solve_with_factors(op, A, B, *, left=True, check_errors=False):
    """What stands behind solve: the factors come along."""
    lu, pivots, info = factored(op, A if left else flipped(op, A))
    x = _solve(op, A, B, left, A.dtype)[0]
    return x, op.cast(lu, A.dtype), op.cast(pivots, torch.int32), op.cast(info, torch.int32)


@converter("torch.linalg.inv", "torch.inverse", cases=[case(_square)])
def inv(op, A):
    return inv_ex(op, A)[0]


@converter("torch.linalg.inv_ex", cases=[case(_square)])
def inv_ex(op, A, *, check_errors=False):
    x, info = eliminated(op, A, eye_like(op, wide(op, A), A.shape[-1]))
    return op.cast(x, A.dtype), op.cast(info, torch.int32)


def _triangle(op, a, upper, unit):
    a = op.Trilu(wide(op, a), upper=int(upper))
    if not unit:
        return a
    one = eye_like(op, a, a.shape[-1])
    return op.Where(op.cast(one, torch.bool), 1, a)


@converter("torch.linalg.solve_triangular", cases=[case(_square, "float32[3,n]", upper=True)])
def solve_triangular(op, A, B, *, upper, left=True, unitriangular=False):
    a = _triangle(op, A, upper, unitriangular)
    if left:
        return op.cast(solved(op, a, B), A.dtype)
    return flipped(op, op.cast(solved(op, flipped(op, a), flipped(op, B)), A.dtype))


@converter("torch.triangular_solve", cases=[case("float32[3,n]", _square)])
def triangular_solve(op, b, A, upper=True, transpose=False, unitriangular=False):
    a = _triangle(op, A, upper, unitriangular)
    return op.cast(solved(op, flipped(op, a) if transpose else a, b), A.dtype), A


# Determinants.


@converter("torch.linalg.det", "torch.det", cases=[case("float32[n,3,3]")])
def det(op, A):
    size = A.shape[-1]
    if type(size) is int and size == 0:
        return op.Expand(op.constant(1, A.dtype), op.sizes(A.shape[:-2]))
    if A.dtype == torch.float64:  # of which onnxruntime has no Det
        signs, diagonal = _signs_and_diagonal(op, A)
        return op.ReduceProd(op.Mul(signs, diagonal), [diagonal.rank - 1], keepdims=0)
    return op.Det(A)


def _signs_and_diagonal(op, a):
    lu, pivots, _ = factored(op, a)
    steps = counted(op, a.shape[-1])
    one = op.cast(op.Equal(op.Unsqueeze(steps, [1]), steps), lu.dtype)
    diagonal = op.ReduceSum(op.Mul(lu, one), [lu.rank - 1], keepdims=0)
    moved = op.cast(op.Not(op.Equal(pivots, op.Add(steps, 1))), lu.dtype)
    return op.Sub(1, op.Mul(moved, 2)), diagonal


def _sign_and_log(op, a):
    signs, diagonal = _signs_and_diagonal(op, a)
    signs = op.Mul(op.Sign(diagonal), signs)
    axis = [diagonal.rank - 1]
    log = op.ReduceSum(op.Log(op.Abs(diagonal)), axis, keepdims=0)
    return op.cast(op.ReduceProd(signs, axis, keepdims=0), a.dtype), op.cast(log, a.dtype)


@converter("torch.linalg.slogdet", "torch.slogdet", cases=[case("float32[n,3,3]")])
def slogdet(op, A):
    return _sign_and_log(op, A)


@converter("torch.logdet", cases=[case(_positive)])
def logdet(op, input):
    sign, log = _sign_and_log(op, input)
    return op.Where(op.Less(sign, 0), float("nan"), log)


# Factors.


@converter("torch.linalg.cholesky", "torch.cholesky", cases=[case(_positive)])
def linalg_cholesky(op, input, upper=False):
    return cholesky_ex(op, input, upper=upper)[0]


@converter("torch.linalg.cholesky_ex", cases=[case(_positive), case(_positive, upper=True)])
def cholesky_ex(op, input, *, upper=False, check_errors=False):
    lower, info = cholesky(op, flipped(op, input) if upper else input)
    lower = op.cast(lower, input.dtype)
    return flipped(op, lower) if upper else lower, op.cast(info, torch.int32)


def _product(op, factor, upper):
    factor = wide(op, factor)
    other = flipped(op, factor)
    return op.MatMul(other, factor) if upper else op.MatMul(factor, other)


@converter("torch.cholesky_solve", cases=[case("float32[3,n]", _positive)])
def cholesky_solve(op, input, L, upper=False):
    factor = op.Trilu(wide(op, L), upper=int(upper))
    lower = flipped(op, factor) if upper else factor
    return op.cast(solved(op, flipped(op, lower), solved(op, lower, input)), op.result.dtype)


@converter("torch.cholesky_inverse", cases=[case(_positive)])
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
    return tuple(p if a else _empty(op, r) for p, a, r in zip(parts, asked, op.result))


@converter("torch.linalg.lu_solve",
           cases=[case(_lu, _pivots, "float32[3,n]"),
                  case(_lu, _pivots, "float32[n,3]", left=False, adjoint=True)])  # fmt: skip
def lu_solve(op, LU, pivots, B, *, left=True, adjoint=False):
    p, lower, upper = _unpacked(op, wide(op, LU), pivots)
    a = op.MatMul(p, op.MatMul(lower, upper))
    a = flipped(op, a) if adjoint else a
    if left:
        return op.cast(solved(op, a, B), LU.dtype)
    return flipped(op, op.cast(solved(op, flipped(op, a), flipped(op, B)), LU.dtype))


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
    return (_empty(op, op.result[0]) if mode == "r" else q), r


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
    q = flipped(op, q) if transpose else q
    x = wide(op, other)
    return op.cast(op.MatMul(q, x) if left else op.MatMul(x, q), input.dtype)


# Eigenvalues and singular values. Their vectors are known up to a sign (or a turn, where values are
# equal), which every library and processor chooses otherwise: PyTorch says so of its own.


def _symmetric(op, a, uplo):
    """The matrix that one of its halves tells of."""
    half = op.Trilu(wide(op, a), upper=int(uplo.upper() == "U"))
    other = op.Trilu(flipped(op, half), op.constant(-1 if uplo.upper() == "U" else 1),
                     upper=int(uplo.upper() != "U"))  # fmt: skip
    return op.Add(half, other)


@converter("torch.linalg.eigvalsh", cases=[case(_positive)])
def eigvalsh(op, A, UPLO="L"):
    return op.cast(eigen(op, _symmetric(op, A, UPLO))[0], op.result.dtype)


@converter("torch.linalg.eigh", cases=[])  # its vectors are known up to their signs
@converter("torch.ops.aten._linalg_eigh", cases=[case(_positive, compute_v=False)])
def eigh(op, A, UPLO="L", compute_v=True):
    values, vectors = eigen(op, _symmetric(op, A, UPLO))
    vectors = op.cast(vectors, op.result[1].dtype) if compute_v else _empty(op, op.result[1])
    return op.cast(values, op.result[0].dtype), vectors


def _squares(op, a):
    """a^T a or a a^T, whichever is smaller: its eigenvalues are squares of singular values."""
    x, y = wide(op, a), flipped(op, wide(op, a))
    return op.MatMul(y, x) if _is_tall(op, a) else op.MatMul(x, y)


def _turned(op, a):
    """A @ V and V of a tall matrix of float64 numbers; V is known up to signs.

    What is computed from squares in float64 has the digits of a float32: enough for those.
    """
    if a.dtype == torch.float64:
        return upright(op, a)
    _, v = eigen(op, op.MatMul(flipped(op, wide(op, a)), wide(op, a)))
    v = op.Slice(v, [-1], [-(2**62)], [v.rank - 1], [-1])
    return op.MatMul(wide(op, a), v), v


def _singular_values(op, a):
    if a.dtype == torch.float64:
        w, _ = upright(op, a if _is_tall(op, a) else flipped(op, a))
        values = op.ReduceL2(w, [a.rank - 2], keepdims=0)
    else:
        values, _ = eigen(op, _squares(op, a))
        values = op.Sqrt(op.Max(values, op.constant(0, torch.float64)))
        values = op.Slice(values, [-1], [-(2**62)], [values.rank - 1], [-1])
    return op.cast(_first(op, values, _smaller_side(a)), a.dtype)


def _first(op, x, count):
    """The first columns, where there may be more."""
    if op.same(x.shape[-1], count):
        return x
    return op.Slice(x, [0], op.sizes([count]), [x.rank - 1])


@converter("torch.linalg.svdvals", cases=[case("float32[n,3,4]")])
def svdvals(op, A, *, driver=None):
    return _singular_values(op, A)


def _is_tall(op, a):
    """Whether there are no fewer rows than columns; also where only the graph will know."""
    rows, columns = a.shape[-2:]
    return op.same(rows, columns) or not op.same(_smaller_side(a), rows)


def _smaller_side(a):
    return min(a.shape[-2], a.shape[-1])


@converter("torch.linalg.svd", cases=[])  # its vectors are known up to their signs
def full_svd(op, A, full_matrices=True, *, driver=None):
    return svd(op, op.cast(A, op.result[1].dtype), full_matrices)  # autocast widens


@converter("torch.ops.aten._linalg_svd", cases=[case("float32[n,3,4]", compute_uv=False)])
def svd(op, A, full_matrices=False, compute_uv=True, *, driver=None):
    if not compute_uv:
        u, _, v = op.result
        return _empty(op, u), _singular_values(op, A), _empty(op, v)
    tall = _is_tall(op, A)
    s = _singular_values(op, A)
    u, v = _singular_vectors(op, A if tall else flipped(op, A))
    if not full_matrices:
        u, v = (_first(op, x, _smaller_side(A)) for x in (u, v))
    u, v = (op.cast(x, A.dtype) for x in ((u, v) if tall else (v, u)))
    return u, s, flipped(op, v)


def _singular_vectors(op, a):
    """U and V of a tall matrix: U from a @ V, whose columns are at right angles."""
    turned, v = _turned(op, a)
    size, a = _smaller_side(a), wide(op, a)
    q, r, _, _ = reflected(op, _first(op, turned, size))
    diagonal = op.ReduceSum(op.Mul(op.Slice(r, [0], op.sizes([size]), [a.rank - 2]),
                                   eye_like(op, a, size)), [a.rank - 2])  # fmt: skip
    signs = op.Where(op.Less(diagonal, 0), op.constant(-1, a.dtype), 1)
    rows = op.sizes([*a.shape[:-2], 1, a.shape[-2] - size])
    signs = op.Concat(signs, op.Expand(op.constant(1, a.dtype), rows), axis=a.rank - 1)
    return op.Mul(q, signs), v


def _pseudo_inverse(op, a, dtype, limit=None):
    """V / s U^T, whatever the signs of these vectors are, in float64."""
    tall, other = _is_tall(op, a), flipped(op, a)
    if dtype == torch.float64:
        turned, v = upright(op, a if tall else other)
        squares = op.ReduceSum(op.Mul(turned, turned), [a.rank - 2], keepdims=0)
        places = counted(op, squares.shape[-1])
        inverse = _inverted(op, squares, limit, op.Less(places, op.constant(_smaller_side(a))))
        x = op.MatMul(op.Mul(v, op.Unsqueeze(inverse, [-2])), flipped(op, turned))
        return x if tall else flipped(op, x)
    # From the smaller of A^T A and A A^T.
    squares, v = eigen(op, op.MatMul(other, a) if tall else op.MatMul(a, other))
    count, sure = squares.shape[-1], _smaller_side(a)
    places = counted(op, count)
    inverse = _inverted(op, squares, limit, op.GreaterOrEqual(places, op.constant(count - sure)))
    square = op.MatMul(op.Mul(v, op.Unsqueeze(inverse, [-2])), flipped(op, v))
    return op.MatMul(square, other) if tall else op.MatMul(other, square)


def _inverted(op, squares, limit, sure):
    """1 / squares of singular values; 0 for those below the limit, and those that are not `sure`:

    beyond the smaller side of a matrix they are 0 but for rounding.
    """
    keep = op.And(op.Greater(squares, 0), sure)
    if limit is not None:
        lengths = op.Sqrt(op.Max(squares, op.constant(0, squares.dtype)))
        keep = op.And(op.Greater(lengths, limit(squares)), sure)
    return op.Where(keep, op.Div(1, op.Where(keep, squares, 1)), 0)


@converter("torch.pinverse", cases=[case("float32[n,4,3]")])
@converter("torch.linalg.pinv",
           cases=[case("float32[n,4,3]"), case("float32[n,3,4]"), case(_positive, hermitian=True)])  # fmt: skip
def pinv(op, A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    rows, columns = A.shape[-2:]
    if any(type(n) is int and n == 0 for n in A.shape):
        return op.Expand(op.constant(0, A.dtype), op.sizes([*A.shape[:-2], columns, rows]))
    a = _symmetric(op, A, "L") if hermitian else wide(op, A)

    def limit(squares):
        values = op.Sqrt(op.Max(squares, op.constant(0, a.dtype)))
        return _limit(op, A, values, atol, rcond if rtol is None else rtol)

    return op.cast(_pseudo_inverse(op, a, A.dtype, limit), A.dtype)


@converter("torch.linalg.lstsq",
           cases=[case("float32[n,4,3]", "float32[n,4,2]"), case("float32[n,3,4]", "float32[n,3,2]"),
                  case("float32[4,3]", "float32[4,2]", driver="gels")])  # fmt: skip
def lstsq(op, input, b, rcond=None, *, driver=None):
    """The shortest of the best answers."""
    _, residuals, rank, values = op.result
    a = wide(op, input)
    vector = b.rank < input.rank
    right = op.Unsqueeze(wide(op, b), [-1]) if vector else wide(op, b)

    def limit(squares):
        lengths = op.Sqrt(op.Max(squares, op.constant(0, a.dtype)))
        return _limit(op, input, lengths, None, rcond)

    # "gels" takes it that no direction is lost, and does not look.
    x = op.MatMul(_pseudo_inverse(op, a, input.dtype, None if driver == "gels" else limit), right)
    left = _empty(op, residuals)
    if residuals.shape != (0,):
        off = op.Sub(op.MatMul(a, x), right)
        left = op.cast(op.ReduceSum(op.Mul(off, off), [off.rank - 2], keepdims=0), input.dtype)
    x = op.Squeeze(x, [-1]) if vector else x
    return (
        op.cast(x, input.dtype),
        left,
        _empty(op, rank) if rank.shape == (0,) else matrix_rank(op, input, rtol=rcond),
        _empty(op, values) if values.shape == (0,) else _singular_values(op, input),
    )


def _limit(op, a, values, atol, rtol):
    """Singular values that are not above it count as 0."""
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
        return _singular_values(op, a)
    return op.Abs(op.cast(eigen(op, _symmetric(op, a, "L"))[0], a.dtype))


# Norms.


@converter("torch.linalg.matrix_norm",
           cases=[case("float32[n,3,4]", o) for o in ("fro", "nuc", 1, 2, -2, float("inf"))])  # fmt: skip
def matrix_norm(op, A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    y = _matrix_norm(op, op.cast(A, op.result.dtype), ord, dim, keepdim)
    # The largest of nothing is 0, among norms.
    return op.Max(y, 0) if any(type(n) is int and n == 0 for n in A.shape) else y


def _matrix_norm(op, x, ord, dim, keepdim):
    first, second = (one_axis(d, x.rank) for d in dim)
    if ord == "fro":
        return op.ReduceL2(x, [first, second], keepdims=int(keepdim))
    if ord in ("nuc", 2, -2):
        rest = [a for a in range(x.rank) if a not in (first, second)]
        values = _singular_values(op, op.Transpose(x, perm=[*rest, first, second]))
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


@converter("torch.linalg.cond", cases=[case(_square), case(_square, "fro")])
def cond(op, A, p=None):
    dtype = op.result.dtype
    if p in (None, 2, -2):
        values = _singular_values(op, A)
        axis = values.rank - 1
        large, small = (op.Squeeze(op.Slice(values, [a], [b], [axis]), [axis])
                        for a, b in ((0, 1), (-1, 2**62)))  # fmt: skip
        return op.Div(large, small) if p != -2 else op.Div(small, large)
    both = [op.cast(matrix_norm(op, v, p), dtype) for v in (A, inv(op, A))]
    return op.Mul(*both)


# Functions of matrices.


@converter("torch.linalg.matrix_exp", "torch.matrix_exp", cases=[case("float32[n,3,3]")])
def matrix_exp(op, A):
    """A series for a small part of the matrix, squared as often as that part was halved."""
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
    for k in range(18, 0, -1):
        total = op.Add(one, op.Div(op.MatMul(x, total), k))
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
