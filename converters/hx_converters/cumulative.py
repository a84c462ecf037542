"""Running sums, products and extremes."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, highest, lowest, moved, one_axis, scalars_too, unless_empty
from ._sums import wider

ALONG = [case("float32[n,5]", 0), case("float32[n,5]", 1)]


def carried(op, input, dtype):
    """Cast the input to the dtype in which PyTorch accumulates; each result is rounded once."""
    return op.cast(op.cast(input, dtype), wider(dtype))


@converter("torch.cumsum", cases=ALONG)
@scalars_too
def cumsum(op, input, dim, *, dtype=None):
    dtype = op.result.dtype
    x = carried(op, input, dtype)
    return op.cast(op.CumSum(x, op.constant(one_axis(dim, input.rank))), dtype)


def scanned(op, x, axis, states, step, *others):
    """Scan along an axis with states: `step(states, slices)` returns new states and outputs.

    ONNX's Scan needs at least one slice: if there may be none, an If guards it.
    """
    size = x.shape[axis]
    if type(size) is int:
        return _scanned_whole(op, x, axis, states, step, *others) if size else [x, *others]
    return unless_empty(op, size, lambda: _scanned_whole(op, x, axis, states, step, *others))


def _scanned_whole(op, x, axis, states, step, *others):
    # Scan along the first axis: along another one, onnxruntime's Scan ends the process if an axis
    # has no elements. It would also transpose its inputs and outputs itself.
    slice_shape = [n for a, n in enumerate(x.shape) if a != axis]
    inputs = [op.input(s.dtype, slice_shape) for s in states]
    slices = [op.input(v.dtype, slice_shape if v.rank == x.rank else ()) for v in (x, *others)]
    body = op.body(lambda *vs: step(vs[: len(states)], vs[len(states) :]), *inputs, *slices)
    count = len(body.outputs)
    turned = [moved(op, v, axis, 0) if v.rank == x.rank else v for v in (x, *others)]
    found = op.Scan(*states, *turned, body=body, num_scan_inputs=len(turned), outputs=count)
    for v in found[len(states) :]:
        v.sized(turned[0].shape)
    return [moved(op, v, 0, axis) for v in found[len(states) :]]


def initial(op, x, axis, number, dtype=None):
    sizes = [n for a, n in enumerate(x.shape) if a != axis]
    return op.Expand(op.constant(number, dtype or x.dtype), op.sizes(sizes))


@converter("torch.cumprod", cases=ALONG)
@scalars_too
def cumprod(op, input, dim, *, dtype=None):
    dtype, axis = op.result.dtype, one_axis(dim, input.rank)
    x = carried(op, input, dtype)

    def step(states, slices):
        total = op.Mul(states[0], slices[0])
        return total, total

    return op.cast(scanned(op, x, axis, [initial(op, x, axis, 1)], step)[0], dtype)


def _extreme(compare, worst):
    def convert(op, input, dim):
        axis = one_axis(dim, input.rank)
        x = op.cast(input, torch.uint8) if input.dtype == torch.bool else input

        def step(states, slices):
            best, at = states
            now, i = slices
            better = getattr(op, compare)(now, best)
            if x.dtype.is_floating_point:  # NaN takes over, and stays
                better = op.Or(op.And(better, op.Not(op.IsNaN(best))), op.IsNaN(now))
            best, at = op.Where(better, now, best), op.Where(better, i, at)
            return best, at, best, at

        start = [initial(op, x, axis, worst(x.dtype)), initial(op, x, axis, 0, torch.int64)]
        values, places = scanned(op, x, axis, start, step, counted(op, x.shape[axis]))
        return op.cast(values, input.dtype), places

    return scalars_too(convert)


# Among equal elements, the last one counts.
cummax = converter("torch.cummax", cases=ALONG)(_extreme("GreaterOrEqual", lowest))
cummin = converter("torch.cummin", cases=ALONG)(_extreme("LessOrEqual", highest))


@converter("torch.logcumsumexp", cases=ALONG)
@scalars_too
def logcumsumexp(op, input, dim):
    axis = one_axis(dim, input.rank)
    x = carried(op, input, input.dtype)

    def step(states, slices):
        total = log_add(op, states[0], slices[0])
        return total, total

    total = scanned(op, x, axis, [initial(op, x, axis, lowest(x.dtype))], step)[0]
    return op.cast(total, input.dtype)


def log_add(op, x, y):
    """Compute log(exp(x) + exp(y)) without overflow: the larger one plus a small correction."""
    high, low = op.Max(x, y), op.Min(x, y)
    gap = op.Where(op.Equal(high, low), 0, op.Sub(low, high))  # two infinities have none
    return op.Add(high, op.Log(op.Add(op.Exp(gap), 1)))


@converter("torch.diff", cases=[case("float32[n,5]"), case("float32[n,5]", 2, 0)])
def diff(op, input, n=1, dim=-1, prepend=None, append=None):
    axis = one_axis(dim, input.rank)
    parts = [v for v in (prepend, input, append) if v is not None]
    x = (
        op.Concat(*[op.cast(v, op.result.dtype) for v in parts], axis=axis)
        if len(parts) > 1
        else input
    )
    if n == 0:
        return input
    for _ in range(n):
        later, earlier = op.Slice(x, [1], [2**62], [axis]), op.Slice(x, [0], [-1], [axis])
        x = op.Xor(later, earlier) if x.dtype == torch.bool else op.Sub(later, earlier)
    return x
