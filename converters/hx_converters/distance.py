"""Distances and similarity of vectors."""

from __future__ import annotations

import math

from hx import case, converter

from ._common import as_result, one_axis, promoted
from ._halves import rounded_once
from ._sums import reduction
from .reduction import vector_norm

TWO = [case("float32[n,3]", "float32[n,3]")]


@converter(
    "torch.cdist",
    "torch.ops.aten.cdist",
    cases=[case("float32[n,3,4]", "float32[n,5,4]"), case("float32[n,4]", "float32[5,4]", 1.0)],
)
@converter(
    "torch.ops.aten._cdist_forward",
    cases=[case("float32[n,3,4]", "float32[n,5,4]", 2.0, None)],
)
@rounded_once
def cdist(op, x1, x2, p=2.0, compute_mode=None):
    gap = op.Sub(op.Unsqueeze(x1, [x1.rank - 1]), op.Unsqueeze(x2, [x2.rank - 2]))
    return vector_norm(op, gap, p, [gap.rank - 1])


def _share(op, gap, p, distance):
    """Return the derivative of a distance with respect to each number of a gap."""
    if p == 0:
        return op.Mul(gap, 0)
    if p == 1:
        return op.Sign(gap)
    if p == math.inf:
        far = op.Equal(op.Abs(gap), distance)
        return op.Where(far, op.Sign(gap), op.constant(0, gap.dtype))
    size = op.Abs(gap)
    # PyTorch defines it as 0 where the distance is 0, or, for p below 1, where the gap is 0.
    part = gap if p == 2 else op.Mul(op.Sign(gap), op.Pow(size, op.constant(p - 1, gap.dtype)))
    whole = distance if p == 2 else op.Pow(distance, op.constant(p - 1, gap.dtype))
    none = op.Equal(size if p < 1 else distance, op.constant(0, gap.dtype))
    return op.Where(none, op.constant(0, gap.dtype), op.Div(part, whole))


@converter(
    "torch.ops.aten._cdist_backward",
    cases=[
        case("float32[n,3,5]", "float32[n,3,4]", "float32[n,5,4]", p, "float32[n,3,5]")
        for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
    ],
)
@rounded_once
def cdist_back(op, grad, x1, x2, p, cdist):
    """Compute the gradient of the first vectors; PyTorch calls again, swapped, for the second."""
    gap = op.Sub(op.Unsqueeze(x1, [x1.rank - 1]), op.Unsqueeze(x2, [x2.rank - 2]))
    grad, distance = (op.Unsqueeze(v, [v.rank]) for v in (grad, cdist))
    share = op.Mul(_share(op, gap, p, distance), grad)
    return op.ReduceSum(share, [share.rank - 2], keepdims=0)


@converter(
    "torch.pdist",
    "torch.nn.functional.pdist",
    "torch.ops.aten._pdist_forward",
    cases=[case("float32[4,3]")],
)
def pdist(op, input, p=2.0):
    """Compute the distance of each pair once: the triangle above the diagonal of all distances."""
    n = input.shape[0]
    ones = op.Trilu(op.Expand(op.constant(1), op.sizes([n, n])), op.constant(1), upper=1)
    i, j = (op.Reshape(v, [-1]) for v in op.Split(op.NonZero(ones), [1, 1], axis=0, outputs=2))
    gap = op.Sub(op.Gather(input, i, axis=0), op.Gather(input, j, axis=0))
    return vector_norm(op, gap, p, [1])


@converter("torch.nn.functional.pairwise_distance", "torch.pairwise_distance", cases=TWO)
@rounded_once
def pairwise_distance(op, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    x, y = promoted(op, x1, x2)
    gap = op.Add(op.cast(op.Sub(x, y), op.result.dtype), eps)
    return vector_norm(op, gap, p, [gap.rank - 1], keepdim)


@converter("torch.nn.functional.cosine_similarity", "torch.cosine_similarity", cases=TWO)
@rounded_once
def cosine_similarity(op, x1, x2, dim=1, eps=1e-8):
    x, y = (v if v.rank else op.Reshape(v, [1]) for v in as_result(op, x1, x2))
    product = op.Mul(x, y)
    axis = one_axis(dim, product.rank)
    # Norms are those of the broadcast vectors.
    x, y = (v if op.same(v.shape, product.shape) else op.Expand(v, op.sizes(product.shape))
            for v in (x, y))  # fmt: skip
    longs = [reduction(op, "ReduceL2", v, [axis], 0) for v in (x, y)]
    longs = [op.Max(v, op.constant(eps, v.dtype)) for v in longs]
    total = reduction(op, "ReduceSum", product, [axis], 0)
    return op.Div(op.Div(total, longs[0]), longs[1])
