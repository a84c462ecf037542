"""Sums, means, extremes and norms along axes."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, axes_of, is_value, one_axis, scalars_too
from ._halves import rounded_once
from ._products import are_exact, product
from ._sparse import summed
from ._sums import reduction

ALONG = [case("float32[n,3]"), case("float32[n,3]", 1), case("float32[n,3]", [0, 1], True)]


def reduced(op, name, x, dim, keepdim):
    """Reduce over some axes, or all of them for None; a scalar reduces as a vector of one."""
    if x.rank == 0:
        return getattr(op, name)(op.Unsqueeze(x, [0]), [0], keepdims=0)
    return reduction(op, name, x, axes_of(dim, x.rank), int(keepdim))


def extreme(op, name, x, dim, keepdim):
    """Return the largest or smallest along axes; NaN if there is one, which onnxruntime skips."""
    y = reduced(op, name, x, dim, keepdim)
    if not x.dtype.is_floating_point:
        return y
    none = op.IsNaN(x)
    if not op.some(count_of(x, dim)):
        none = op.cast(none, torch.uint8)  # onnxruntime fails on no bools, and gives 0 for no uint8
    none = op.cast(reduced(op, "ReduceMax", none, dim, keepdim), torch.bool)
    return op.Where(none, math.nan, y)


def place(op, name, x, axis, keepdim):
    """Return the index of the largest or smallest along an axis; the first NaN counts as that."""
    y = getattr(op, name)(x, axis=axis, keepdims=int(keepdim))
    if not x.dtype.is_floating_point:
        return y
    none = op.IsNaN(x)
    marks = op.cast(none, torch.uint8)
    first = op.ArgMax(marks, axis=axis, keepdims=int(keepdim))
    if not op.some(count_of(x, axis)):
        none = marks  # as in `extreme`: a branch that is not taken may have no elements
    none = op.cast(reduced(op, "ReduceMax", none, axis, keepdim), torch.bool)
    return op.Where(none, first, y)


def count_of(x, dim):
    """Count the elements that a reduction combines."""
    total = 1
    for axis in axes_of(dim, x.rank) if x.rank else ():
        total = x.shape[axis] * total
    return total


def averaged(op, x, dim, keepdim):
    """Return a mean; that of no elements is NaN, where onnxruntime gives 0."""
    count = count_of(x, dim)
    if op.some(count):
        return reduced(op, "ReduceMean", x, dim, keepdim)
    return op.Div(reduced(op, "ReduceSum", x, dim, keepdim), op.constant(count, x.dtype))


def _computed(name):
    """Reduce in the dtype of the result."""

    def convert(op, input, dim=None, keepdim=False, *, dtype=None):
        x = op.cast(input, op.result.dtype)
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            x = op.cast(x, torch.int64)  # a smaller dtype should wrap, but onnxruntime saturates it
        return op.cast(reduced(op, name, x, dim, keepdim), op.result.dtype)

    return convert


@converter("torch.sum", cases=ALONG)
def sum(op, input, dim=None, keepdim=False, *, dtype=None):
    if op.is_sparse(input):
        return summed(op, input, dim, keepdim)
    return _computed("ReduceSum")(op, input, dim, keepdim)


CONVERTERS = [
    converter("torch.logsumexp", "torch.special.logsumexp", cases=ALONG[1:])(
        _computed("ReduceLogSumExp")
    ),
]


@converter("torch.prod",
           cases=[*ALONG[:2], case("bool[n,3]", 1), case("int64[n,3]<9", 1, True),
                  case("int32[3,n]<9", 1, dtype=lambda: torch.int32)])  # fmt: skip
def prod(op, input, dim=None, keepdim=False, *, dtype=None):
    kind = op.result.dtype
    if kind.is_floating_point or kind.is_complex or are_exact(input, count_of(input, dim)):
        return _computed("ReduceProd")(op, input, dim, keepdim)
    x = op.cast(input, kind)
    if dim is None or not x.rank:
        return product(op, op.Reshape(x, [-1]), 0)
    axis = one_axis(dim, x.rank)
    y = product(op, x, axis)
    return op.Unsqueeze(y, [axis]) if keepdim else y


@converter("torch.mean", cases=ALONG)
def mean(op, input, dim=None, keepdim=False, *, dtype=None):
    return averaged(op, op.cast(input, op.result.dtype), dim, keepdim)


def without_nan(op, x):
    return op.Where(op.IsNaN(x), 0, x) if x.dtype.is_floating_point else x


@converter("torch.nansum", cases=ALONG)
def nansum(op, input, dim=None, keepdim=False, *, dtype=None):
    x = without_nan(op, op.cast(input, op.result.dtype))
    return reduced(op, "ReduceSum", x, dim, keepdim)


@converter("torch.nanmean", cases=ALONG)
def nanmean(op, input, dim=None, keepdim=False, *, dtype=None):
    x = op.cast(input, op.result.dtype)
    numbers = op.cast(op.Not(op.IsNaN(x)), x.dtype)
    return op.Div(reduced(op, "ReduceSum", without_nan(op, x), dim, keepdim),
                  reduced(op, "ReduceSum", numbers, dim, keepdim))  # fmt: skip


@converter("torch.count_nonzero", cases=[case("int64[n,3]<2", 1), case("float32[n,3]")])
def count_nonzero(op, input, dim=None):
    some = op.cast(op.cast(input, torch.bool), torch.int64)
    return reduced(op, "ReduceSum", some, dim, False)


# Extremes.


def _most(name):
    def convert(op, input, dim=(), keepdim=False):
        return extreme(op, name, input, dim, keepdim)

    return convert


amax = converter("torch.amax", cases=ALONG)(_most("ReduceMax"))
amin = converter("torch.amin", cases=ALONG)(_most("ReduceMin"))


@converter("torch.aminmax", cases=[case("float32[n,3]"), case("float32[n,3]", dim=1)])
def aminmax(op, input, *, dim=None, keepdim=False):
    return tuple(extreme(op, f"Reduce{m}", input, dim, keepdim) for m in ("Min", "Max"))


def _extreme(reduce, arg, pair):
    @scalars_too
    def with_place(op, input, dim, keepdim=False):
        axis = one_axis(dim, input.rank)
        index = place(op, arg, input, axis, keepdim)
        return extreme(op, reduce, input, axis, keepdim), index

    def convert(op, input, dim=None, keepdim=False):
        if hasattr(dim, "rank"):
            x, y = (op.cast(v, op.result.dtype) for v in (input, dim))
            return getattr(op, pair)(x, y)
        if dim is None:
            return extreme(op, reduce, input, None, False)
        return with_place(op, input, dim, keepdim)

    return convert


max = converter("torch.max", cases=ALONG[:2])(_extreme("ReduceMax", "ArgMax", "Max"))
min = converter("torch.min", cases=ALONG[:2])(_extreme("ReduceMin", "ArgMin", "Min"))


def _arg(name):
    def convert(op, input, dim=None, keepdim=False):
        if dim is None or input.rank == 0:
            y = place(op, name, op.Reshape(input, [-1]), 0, False)
            return op.Reshape(y, [1] * input.rank) if keepdim and input.rank else y
        return place(op, name, input, one_axis(dim, input.rank), keepdim)

    return convert


argmax = converter("torch.argmax", cases=ALONG[:2])(_arg("ArgMax"))
argmin = converter("torch.argmin", cases=ALONG[:2])(_arg("ArgMin"))


def _logical(name):
    def convert(op, input, dim=None, keepdim=False):
        # onnxruntime takes several times as long for bools, and refuses to reduce none of them. The
        # largest of no uint8 is 0, and the smallest is 255.
        if isinstance(dim, (list, tuple)) and not dim:  # no axes: each number by itself
            return op.cast(op.cast(input, torch.bool), op.result.dtype)
        x = op.cast(op.cast(input, torch.bool), torch.uint8)
        return op.cast(op.cast(reduced(op, name, x, dim, keepdim), torch.bool), op.result.dtype)

    return convert


all = converter(
    "torch.all", cases=[case("bool[n,3]"), case("bool[n,3]", 1), case("float32[n,3]", ())]
)(_logical("ReduceMin"))
any = converter("torch.any", cases=[case("bool[n,3]"), case("bool[n,3]", 1)])(_logical("ReduceMax"))
# Functions that PyTorch itself calls in its checks of arguments.
is_all_true = converter("torch._is_all_true", cases=[case("bool[n,3]")])(_logical("ReduceMin"))
is_any_true = converter("torch._is_any_true", cases=[case("bool[n,3]")])(_logical("ReduceMax"))


# Norms.


@converter("torch.linalg.vector_norm",
           cases=[case("float32[n,3]", 2, 1), case("float32[n,3]", math.inf), case("float32[n,3]", 3, 1)])  # fmt: skip
@rounded_once
def vector_norm(op, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    x = op.cast(x, op.result.dtype)
    if is_value(ord):
        op.refuse("the order of the norm is only known when the file runs",
                  "pass a number, or one that follows from weights alone")  # fmt: skip
    if ord in (1, 2):
        return reduced(op, f"ReduceL{int(ord)}", x, dim, keepdim)
    if ord == 0:
        return reduced(op, "ReduceSum", op.cast(op.cast(x, torch.bool), x.dtype), dim, keepdim)
    if math.isinf(ord):
        return extreme(op, "ReduceMax" if ord > 0 else "ReduceMin", op.Abs(x), dim, keepdim)
    powers = reduced(
        op, "ReduceSum", op.Pow(op.Abs(x), op.constant(float(ord), x.dtype)), dim, keepdim
    )
    return op.Pow(powers, op.constant(1 / ord, x.dtype))


@converter("torch.ops.aten.norm", cases=[case("float32[n,3]", 2), case("float32[n,3]", 1, [1])])
def norm(op, input, p=2, dim=None, keepdim=False, *, dtype=None):
    if isinstance(p, str):
        return NotImplemented
    return vector_norm(op, input, 2 if p is None else p, dim, keepdim)


@converter(
    "torch.dist",
    cases=[case("float32[n,3]", "float32[n,3]"), case("float32[n,3]", "float32[3]", 1)],
)
def dist(op, input, other, p=2):
    return vector_norm(op, op.Sub(*as_result(op, input, other)), p)


@converter("torch.renorm", cases=[case("float32[n,3]", 2, 0, 1.0)])
def renorm(op, input, p, dim, maxnorm):
    kept = one_axis(dim, input.rank)
    norms = vector_norm(op, input, p, [a for a in range(input.rank) if a != kept], True)
    scale = op.Div(op.constant(maxnorm, input.dtype), op.Add(norms, 1e-7))
    return op.Where(
        op.Greater(norms, op.constant(maxnorm, input.dtype)), op.Mul(input, scale), input
    )
