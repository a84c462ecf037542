"""Sums, means, extremes and orderings along axes."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import axes_of, one_axis

ALONG = [case("float32[n,3]"), case("float32[n,3]", 1), case("float32[n,3]", [0, 1], True)]


def _reduced(op, name, x, dim, keepdim):
    if x.rank == 0:
        return op.Identity(x)
    return getattr(op, name)(x, axes_of(dim, x.rank), keepdims=int(keepdim))


@converter("torch.sum", cases=ALONG)
def sum(op, input, dim=None, keepdim=False, *, dtype=None):
    return _reduced(op, "ReduceSum", op.cast(input, op.result.dtype), dim, keepdim)


@converter("torch.mean", cases=ALONG)
def mean(op, input, dim=None, keepdim=False, *, dtype=None):
    return _reduced(op, "ReduceMean", op.cast(input, op.result.dtype), dim, keepdim)


@converter("torch.amax", cases=ALONG[1:])
def amax(op, input, dim=(), keepdim=False):
    return _reduced(op, "ReduceMax", input, dim, keepdim)


@converter("torch.amin", cases=ALONG[1:])
def amin(op, input, dim=(), keepdim=False):
    return _reduced(op, "ReduceMin", input, dim, keepdim)


@converter("torch.prod", cases=[case("float32[n,3]"), case("float32[n,3]", 1)])
def prod(op, input, dim=None, keepdim=False, *, dtype=None):
    return _reduced(op, "ReduceProd", op.cast(input, op.result.dtype), dim, keepdim)


def _extreme(reduce, arg, pair):
    def convert(op, input, dim=None, keepdim=False):
        if hasattr(dim, "rank"):
            return getattr(op, pair)(input, op.cast(dim, input.dtype))
        if dim is None:
            return _reduced(op, reduce, input, None, False)
        axis = one_axis(dim, input.rank)
        index = getattr(op, arg)(input, axis=axis, keepdims=int(keepdim))
        return _reduced(op, reduce, input, axis, keepdim), index

    return convert


max = converter("torch.max", cases=[case("float32[n,3]"), case("float32[n,3]", 1)])(
    _extreme("ReduceMax", "ArgMax", "Max")
)
min = converter("torch.min", cases=[case("float32[n,3]"), case("float32[n,3]", 1)])(
    _extreme("ReduceMin", "ArgMin", "Min")
)


def _arg(name):
    def convert(op, input, dim=None, keepdim=False):
        if dim is None:
            y = getattr(op, name)(op.Reshape(input, [-1]), axis=0, keepdims=0)
            return op.Reshape(y, [1] * input.rank) if keepdim else y
        return getattr(op, name)(input, axis=dim, keepdims=int(keepdim))

    return convert


argmax = converter("torch.argmax", cases=[case("float32[n,3]"), case("float32[n,3]", 1)])(
    _arg("ArgMax")
)
argmin = converter("torch.argmin", cases=[case("float32[n,3]"), case("float32[n,3]", 1)])(
    _arg("ArgMin")
)


@converter("torch.all", cases=[case("bool[n,3]"), case("bool[n,3]", 1)])
def all(op, input, dim=None, keepdim=False):
    x = op.cast(op.cast(input, torch.bool), torch.int32)
    return op.cast(_reduced(op, "ReduceMin", x, dim, keepdim), op.result.dtype)


@converter("torch.any", cases=[case("bool[n,3]"), case("bool[n,3]", 1)])
def any(op, input, dim=None, keepdim=False):
    x = op.cast(op.cast(input, torch.bool), torch.int32)
    return op.cast(_reduced(op, "ReduceMax", x, dim, keepdim), op.result.dtype)


def _variance(op, x, dim, correction, keepdim):
    axes = axes_of(dim, x.rank)
    centred = op.Sub(x, op.ReduceMean(x, axes))
    squares = op.ReduceSum(op.Mul(centred, centred), axes, keepdims=int(keepdim))
    count = 1
    for a in axes:
        count = x.shape[a] * count
    return op.Div(squares, op.constant(count - correction, x.dtype))


@converter("torch.var", cases=[case("float32[n,3]", 1)])
def var(op, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return _variance(op, input, dim, correction, keepdim)


@converter("torch.std", cases=[case("float32[n,3]", 1)])
def std(op, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return op.Sqrt(var(op, input, dim, unbiased, keepdim, correction=correction))


@converter("torch.linalg.vector_norm", cases=[case("float32[n,3]", 2, 1)])
def vector_norm(op, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord not in (1, 2):
        return NotImplemented
    return _reduced(op, f"ReduceL{int(ord)}", op.cast(x, op.result.dtype), dim, keepdim)
