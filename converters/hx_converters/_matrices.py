"""Matrix factorizations, for which ONNX has no operators: one row or column at a time in a Loop.

Everything is computed in float64, for any batch of real or complex matrices, also of sizes known
only at run time.
"""

from __future__ import annotations

from hx.lazy import torch

from ._common import counted, loop


def square():
    """Example of an invertible matrix."""
    return torch.randn(3, 3) + 3 * torch.eye(3)


def positive():
    """Example of a symmetric, positive definite matrix."""
    return torch.eye(3) + 0.1 * torch.ones(3, 3)


def unfilled(op, spec):
    """Return uninitialized contents for a result that nobody reads, as PyTorch does."""
    return op.constant(torch.empty(tuple(spec.shape), dtype=spec.dtype))


def wide(op, x):
    return op.cast(x, torch.complex128 if x.dtype.is_complex else torch.float64)


def flipped(op, x):
    """The transposed matrices."""
    axes = list(range(x.rank))
    axes[-2:] = axes[-1], axes[-2]
    return op.Transpose(x, perm=axes)


def conjugate(op, x):
    if not x.dtype.is_complex:
        return x
    real, imaginary = op.parts(x, whole=True)
    return op.complex(real, op.Neg(imaginary))


def mirrored(op, x):
    """The transposed matrices; complex ones conjugated."""
    return conjugate(op, flipped(op, x))


def real_part(op, x):
    return op.parts(x)[0] if x.dtype.is_complex else x


def squared(op, x):
    """The squares of lengths, number by number."""
    parts = op.parts(x, whole=True) if x.dtype.is_complex else [x]
    squares = [op.Mul(part, part) for part in parts]
    return op.Add(*squares) if x.dtype.is_complex else squares[0]


def direction(op, x):
    """The sign of each number; a complex one divided by its absolute value."""
    if not x.dtype.is_complex:
        return op.Sign(x)
    size = op.Abs(x)
    return op.Div(x, op.Where(op.Equal(size, 0), 1, size))


def eye_like(op, x, size):
    """A unit matrix for each matrix of a batch."""
    steps = counted(op, size)
    one = op.cast(op.Equal(op.Unsqueeze(steps, [1]), steps), x.dtype)
    return op.Expand(one, op.sizes([*x.shape[:-2], size, size]))


def with_real_diagonal(op, a):
    """Square matrices without the imaginary parts of their diagonals."""
    if not a.dtype.is_complex:
        return a
    real, imaginary = op.parts(a, whole=True)
    one = op.cast(eye_like(op, real, a.shape[-1]), torch.bool)
    return op.complex(real, op.Where(one, 0, imaginary))


def broadcast_batches(op, a, b):
    """Two matrices with the same batch axes in front."""
    lead_a, lead_b = a.shape[:-2], b.shape[:-2]
    if op.same(lead_a, lead_b):
        return a, b
    width = max(len(lead_a), len(lead_b))
    lead_a = (1,) * (width - len(lead_a)) + tuple(lead_a)
    lead_b = (1,) * (width - len(lead_b)) + tuple(lead_b)
    lead = [m if type(n) is int and n == 1 else n for m, n in zip(lead_a, lead_b)]
    return (op.Expand(a, op.sizes([*lead, *a.shape[-2:]])),
            op.Expand(b, op.sizes([*lead, *b.shape[-2:]])))  # fmt: skip


def _row(op, m, at):
    """The row of each matrix at index `at` [..., 1]."""
    index = op.Expand(op.Unsqueeze(at, [-1]), op.sizes([*m.shape[:-2], 1, m.shape[-1]]))
    return op.GatherElements(m, index, axis=m.rank - 2)


def _size(op, x):
    """Return the magnitude that LAPACK compares: |x|, or |re| + |im| of a complex number."""
    if not x.dtype.is_complex:
        return op.Abs(x)
    return op.Add(*(op.Abs(part) for part in op.parts(x, whole=True)))


def _pivot(op, m, i, rows):
    """Column i, and the row at or below i where it is largest."""
    column = op.Gather(m, i, axis=m.rank - 1)
    size = op.Where(op.Less(rows, i), -1.0, _size(op, column))
    return column, op.ArgMax(size, axis=size.rank - 1, keepdims=1)


def _swapped(op, m, i, at, rows):
    """m with rows i and `at` exchanged."""
    mine, other = op.Gather(m, op.Reshape(i, [1]), axis=m.rank - 2), _row(op, m, at)
    m = op.Where(op.Unsqueeze(op.Equal(rows, at), [-1]), mine, m)
    return op.Where(op.Unsqueeze(op.Equal(rows, i), [-1]), other, m)


def nothing_wrong(op, a):
    """LAPACK's info for each matrix: 0, before a step finds that it cannot go on."""
    return op.Expand(op.constant(0), op.sizes(a.shape[:-2]))


def noted(op, info, bad, i):
    """The first step that went wrong, counted from 1."""
    return op.Where(op.And(bad, op.Equal(info, 0)), op.Add(i, 1), info)


def solved(op, a, b):
    """x of a @ x = b."""
    return eliminated(op, a, b)[0]


def substituted(op, a, b, upper):
    """x of a @ x = b for a triangular a, row by row: nothing is lost to pivots of its own."""
    a, b = broadcast_batches(op, wide(op, a), wide(op, b))
    n, last = a.shape[-1], a.rank - 1
    rows = op.Unsqueeze(counted(op, n), [-1])

    def step(i, m):
        i = op.Reshape(op.Sub(op.constant(n - 1), i) if upper else i, [1])
        column = op.Gather(a, i, axis=last)
        row = op.Gather(m, i, axis=last - 1)
        row = op.Div(row, op.Gather(column, i, axis=last - 1))
        left = (op.Less if upper else op.Greater)(rows, i)
        return [op.Where(op.Equal(rows, i), row, op.Where(left, op.Sub(m, op.Mul(column, row)), m))]

    return loop(op, n, [b], step)[0]


def eliminated(op, a, b):
    """x of a @ x = b, by Gauss-Jordan elimination with partial pivoting; and LAPACK's info."""
    a, b = broadcast_batches(op, wide(op, a), wide(op, b))
    n = a.shape[-1]
    m = op.Concat(a, b, axis=a.rank - 1)
    rows = counted(op, n)

    def step(i, m, info):
        _, at = _pivot(op, m, i, rows)
        m = _swapped(op, m, i, at, rows)
        row = op.Gather(m, op.Reshape(i, [1]), axis=m.rank - 2)
        pivot = op.Gather(row, op.Reshape(i, [1]), axis=m.rank - 1)
        row = op.Div(row, pivot)
        column = op.Gather(m, op.Reshape(i, [1]), axis=m.rank - 1)
        here = op.Unsqueeze(op.Equal(rows, i), [-1])
        none = op.Squeeze(op.Equal(pivot, 0), [m.rank - 2, m.rank - 1])
        return op.Where(here, row, op.Sub(m, op.Mul(column, row))), noted(op, info, none, i)

    m, info = loop(op, n, [m, nothing_wrong(op, a)], step)
    return op.Slice(m, op.sizes([n]), [2**62], [m.rank - 1]), info


def factored(op, a):
    """L below and U above the diagonal of one matrix; LAPACK's pivots, counted from 1; and info."""
    a = wide(op, a)
    count = min(a.shape[-2], a.shape[-1])
    rows, columns, places = (counted(op, n) for n in (a.shape[-2], a.shape[-1], count))
    pivots = op.Expand(op.constant(0), op.sizes([*a.shape[:-2], count]))

    def step(i, m, pivots, info):
        _, at = _pivot(op, m, i, rows)
        m = _swapped(op, m, i, at, rows)
        pivots = op.Where(op.Equal(places, i), op.Add(at, 1), pivots)
        row = op.Gather(m, op.Reshape(i, [1]), axis=m.rank - 2)
        column = op.Gather(m, op.Reshape(i, [1]), axis=m.rank - 1)
        pivot = op.Gather(row, op.Reshape(i, [1]), axis=m.rank - 1)
        below = op.Unsqueeze(op.Greater(rows, i), [-1])
        # A column of zeros stays unchanged.
        factor = op.Where(
            op.Equal(pivot, 0), 0, op.Div(column, op.Where(op.Equal(pivot, 0), 1, pivot))
        )
        after = op.Sub(m, op.Mul(factor, op.Where(op.Greater(columns, i), row, 0)))
        after = op.Where(op.Equal(columns, i), op.Where(op.Equal(pivot, 0), m, factor), after)
        none = op.Squeeze(op.Equal(pivot, 0), [m.rank - 2, m.rank - 1])
        return op.Where(below, after, m), pivots, noted(op, info, none, i)

    return loop(op, count, [a, pivots, nothing_wrong(op, a)], step)


def permutation(op, pivots, size, dtype):
    """The permutation P of A = P L U, from the pivots."""
    order = op.Expand(counted(op, size), op.sizes([*pivots.shape[:-1], size]))
    steps = counted(op, size)
    pivots = op.cast(pivots, torch.int64)

    def step(i, order):
        at = op.Sub(op.Gather(pivots, op.Reshape(i, [1]), axis=pivots.rank - 1), 1)
        mine = op.Gather(order, op.Reshape(i, [1]), axis=order.rank - 1)
        other = op.GatherElements(order, at, axis=order.rank - 1)
        order = op.Where(op.Equal(steps, at), mine, order)
        return (op.Where(op.Equal(steps, i), other, order),)

    (order,) = loop(op, pivots.shape[-1], [order], step)
    here = op.Equal(op.Unsqueeze(steps, [1]), op.Unsqueeze(order, [-2]))
    return op.cast(here, dtype)


def cholesky(op, a):
    """L of a = L @ L^H, column by column; and info. As LAPACK, stops at a pivot without a root."""
    a = wide(op, a)
    n = a.shape[-1]
    places = counted(op, n)
    rows = op.Unsqueeze(places, [-1])

    def step(j, lower, info):
        done = op.Where(
            op.Less(places, j), op.Gather(lower, op.Reshape(j, [1]), axis=a.rank - 2), 0
        )
        column = op.Gather(lower, op.Reshape(j, [1]), axis=a.rank - 1)
        rest = op.Sub(column, op.MatMul(lower, mirrored(op, done)))
        square = real_part(op, op.Gather(rest, op.Reshape(j, [1]), axis=a.rank - 2))
        none = op.Squeeze(op.Not(op.Greater(square, 0)), [a.rank - 2, a.rank - 1])
        info = noted(op, info, none, j)
        good = op.Unsqueeze(op.Equal(info, 0), [-1, -2])
        root = op.Sqrt(op.Where(good, square, 1))
        below = op.Where(op.Greater(rows, j), op.Div(rest, root), column)
        new = op.Where(op.Equal(rows, j), root, below)
        new = op.Where(good, new, op.Where(op.Equal(rows, j), square, column))
        now = op.Equal(op.Unsqueeze(info, [-1, -2]), op.Add(j, 1))  # goes wrong at this step
        change = op.And(op.Equal(places, j), op.Or(good, now))
        return op.Where(change, new, lower), info

    return loop(op, n, [op.Trilu(a, upper=0), nothing_wrong(op, a)], step)


def reflected(op, a):
    """Q and R of a = Q @ R by Householder: reflections under R's diagonal, and their factors."""
    a = wide(op, a)
    m, n = a.shape[-2:]
    count = min(m, n)
    rows, columns, places = counted(op, m), counted(op, n), counted(op, count)
    q = eye_like(op, a, m)
    kept = op.Expand(op.constant(0, a.dtype), op.sizes(a.shape))
    factors = op.Expand(op.constant(0, a.dtype), op.sizes([*a.shape[:-2], count]))

    def step(k, q, r, kept, factors):
        column = op.Gather(r, op.Reshape(k, [1]), axis=a.rank - 1)
        below = op.Unsqueeze(op.Greater(rows, k), [-1])
        head = op.Gather(column, op.Reshape(k, [1]), axis=a.rank - 2)
        tail = op.Where(below, column, 0)
        squares = op.ReduceSum(squared(op, tail), [a.rank - 2])
        flat = op.Equal(squares, 0)  # nothing to reflect
        if a.dtype.is_complex:  # except for the phase that makes the head real
            flat = op.And(flat, op.Equal(op.parts(head, whole=True)[1], 0))
        norm = op.Sqrt(op.Add(squared(op, head), squares))
        beta = op.Where(op.Less(real_part(op, head), 0), norm, op.Neg(norm))
        safe = op.Where(flat, 1, op.Sub(head, beta))
        v = op.Add(op.Div(tail, safe), op.cast(op.Unsqueeze(op.Equal(rows, k), [-1]), a.dtype))
        tau = op.Where(flat, 0, op.Div(op.Sub(beta, head), op.Where(flat, 1, beta)))
        r = op.Sub(r, op.Mul(conjugate(op, tau), op.MatMul(v, op.MatMul(mirrored(op, v), r))))
        q = op.Sub(q, op.Mul(tau, op.MatMul(op.MatMul(q, v), mirrored(op, v))))
        kept = op.Where(op.And(below, op.Equal(columns, k)), v, kept)
        factors = op.Where(op.Equal(places, k), op.Squeeze(tau, [a.rank - 1]), factors)
        return q, r, kept, factors

    return loop(op, count, [q, a, kept, factors], step)


def reflections(op, v, factors):
    """The product of the reflections stored below a diagonal."""
    v, factors = wide(op, v), wide(op, factors)
    rows = counted(op, v.shape[-2])
    q = eye_like(op, v, v.shape[-2])

    def step(k, q):
        column = op.Gather(v, op.Reshape(k, [1]), axis=v.rank - 1)
        one = op.cast(op.Unsqueeze(op.Equal(rows, k), [-1]), v.dtype)
        column = op.Add(op.Where(op.Unsqueeze(op.Greater(rows, k), [-1]), column, 0), one)
        tau = op.Unsqueeze(op.Gather(factors, op.Reshape(k, [1]), axis=factors.rank - 1), [-1])
        return (op.Sub(q, op.Mul(tau, op.MatMul(op.MatMul(q, column), mirrored(op, column)))),)

    return loop(op, factors.shape[-1], [q], step)[0]


def eigen(op, a):
    """Eigenvalues, smallest first, and eigenvectors of symmetric (or Hermitian) matrices.

    Uses Jacobi rotations: each turn zeroes the largest off-diagonal element of each matrix.
    """
    a = wide(op, a)
    n = a.shape[-1]
    if type(n) is int and n == 0:
        return op.Reshape(real_part(op, a), op.sizes(a.shape[:-1]), allowzero=1), a
    steps = counted(op, n)
    upper = op.Less(op.Unsqueeze(steps, [1]), steps)
    small = op.Mul(op.ReduceMax(op.Abs(a), [a.rank - 2, a.rank - 1]), 1e-15)

    def off(m):
        return op.Where(upper, op.Abs(m), 0)

    def hot(at):
        return op.cast(op.Unsqueeze(op.Equal(steps, at), [-1]), torch.float64)

    def entry(m, left, right):
        return op.MatMul(flipped(op, left), op.MatMul(m, right))

    def step(_, m, v):
        flat = op.Reshape(off(m), op.sizes([*a.shape[:-2], n * n]))
        at = op.ArgMax(flat, axis=a.rank - 2, keepdims=1)
        width = op.constant(max(n, 1))
        p, q = hot(op.Div(at, width)), hot(op.Mod(at, width))
        gap = op.Sub(entry(real_part(op, m), q, q), entry(real_part(op, m), p, p))
        turn = rotation(op, p, q, entry(m, p, q), gap)
        m = op.Add(m, op.MatMul(m, turn))
        m = op.Add(m, op.MatMul(mirrored(op, turn), m))
        return m, op.Add(v, op.MatMul(v, turn))

    def go_on(m, v):
        large = op.cast(op.Greater(off(m), small), torch.int32)
        return op.cast(op.ReduceMax(large, keepdims=0), torch.bool)

    m, v = loop(op, 30 * n * n + 1, [a, eye_like(op, a, n)], step, go_on)
    one = op.cast(op.Equal(op.Unsqueeze(steps, [1]), steps), torch.float64)
    values = op.ReduceSum(op.Mul(real_part(op, m), one), [a.rank - 1], keepdims=0)
    values, order = op.TopK(values, op.sizes([n]), axis=a.rank - 2, largest=0, outputs=2)
    order = op.Expand(op.Unsqueeze(order, [-2]), op.sizes(a.shape))
    return values, op.GatherElements(v, order, axis=a.rank - 1)


def upright(op, a):
    """Return a @ V with orthogonal columns, longest first, and V, for matrices in float64.

    Uses one-sided Jacobi rotations: each turn takes the pair of columns furthest from orthogonal.
    Unlike the eigenvalues of a^H a, short columns keep all of their digits.
    """
    n = a.shape[-1]
    if any(type(m) is int and m == 0 for m in a.shape):
        return [a, eye_like(op, a, n)]
    steps = counted(op, n)
    upper = op.Less(op.Unsqueeze(steps, [1]), steps)
    one = op.cast(op.Equal(op.Unsqueeze(steps, [1]), steps), torch.float64)

    def hot(at):
        return op.cast(op.Unsqueeze(op.Equal(steps, at), [-1]), torch.float64)

    def angles(w):
        """Return cosines between columns (0 beside one of mere rounding) and the products."""
        products = op.MatMul(mirrored(op, w), w)
        squares = op.ReduceSum(op.Mul(real_part(op, products), one), [a.rank - 1], keepdims=1)
        least = op.Mul(op.ReduceMax(squares, [a.rank - 2]), 1e-30)
        lengths = op.Sqrt(op.Where(op.Greater(squares, least), squares, 0))
        long = op.MatMul(lengths, flipped(op, lengths))
        none = op.Equal(long, 0)
        cosines = op.Where(none, 0, op.Div(op.Abs(products), op.Where(none, 1, long)))
        return op.Where(upper, cosines, 0), products

    def entry(m, left, right):
        return op.MatMul(flipped(op, left), op.MatMul(m, right))

    def step(_, w, v):
        cosines, products = angles(w)
        flat = op.Reshape(cosines, op.sizes([*a.shape[:-2], n * n]))
        at = op.ArgMax(flat, axis=a.rank - 2, keepdims=1)
        width = op.constant(max(n, 1))
        p, q = hot(op.Div(at, width)), hot(op.Mod(at, width))
        gap = op.Sub(*(entry(real_part(op, products), axis, axis) for axis in (q, p)))
        turn = rotation(op, p, q, entry(products, p, q), gap)
        return op.Add(w, op.MatMul(w, turn)), op.Add(v, op.MatMul(v, turn))

    def go_on(w, v):
        large = op.cast(op.Greater(angles(w)[0], op.constant(1e-15, torch.float64)), torch.int32)
        return op.cast(op.ReduceMax(large, keepdims=0), torch.bool)

    w, v = loop(op, 30 * n * n + 1, [a, eye_like(op, a, n)], step, go_on)
    lengths = op.ReduceSum(squared(op, w), [a.rank - 2], keepdims=0)
    _, order = op.TopK(lengths, op.sizes([n]), axis=a.rank - 2, outputs=2)
    order = op.Unsqueeze(order, [-2])
    return [
        op.GatherElements(x, op.Expand(order, op.sizes(x.shape)), axis=a.rank - 1) for x in (w, v)
    ]


def rotation(op, p, q, x, gap):
    """Return a Jacobi rotation minus the identity: it turns two axes so that x becomes 0."""
    phase = None
    if x.dtype.is_complex:  # a phase that makes x real, then a real rotation
        phase, x = direction(op, x), op.Abs(x)
    # Both axes are the first in a matrix that is diagonal already, while others of the batch are
    # not.
    same = op.Greater(op.MatMul(flipped(op, p), q), 0)
    none = op.Or(op.Equal(x, 0), same)
    theta = op.Div(gap, op.Mul(op.Where(none, 1, x), 2))
    sign = op.Where(op.Less(theta, 0), op.constant(-1, x.dtype), 1)
    t = op.Div(sign, op.Add(op.Abs(theta), op.Sqrt(op.Add(op.Mul(theta, theta), 1))))
    t = op.Where(none, 0, t)
    c = op.Div(1, op.Sqrt(op.Add(op.Mul(t, t), 1)))
    s = op.Mul(t, c)

    def outer(left, right):
        return op.MatMul(left, flipped(op, right))

    straight = op.Mul(op.Sub(c, 1), op.Add(outer(p, p), outer(q, q)))
    there, back = outer(p, q), outer(q, p)
    if phase is not None:
        there, back = op.Mul(there, phase), op.Mul(back, conjugate(op, phase))
    return op.Add(straight, op.Mul(s, op.Sub(there, back)))
