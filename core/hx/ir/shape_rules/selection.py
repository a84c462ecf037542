"""Selections of elements."""

from __future__ import annotations

from ..shapes import RUN_TIME, axis_of, elements, numbers, product, shape_of, slice_size
from ._rule import rule


@rule("NonZero")
def _non_zero(inputs, attributes, count):
    return [(inputs[0].rank, RUN_TIME)]


@rule("Compress")
def _compress(inputs, attributes, count):
    if "axis" not in attributes:
        return [(RUN_TIME,)]
    x = list(shape_of(inputs[0]))
    x[axis_of(attributes["axis"], len(x))] = RUN_TIME
    return [tuple(x)]


@rule("Unique")
def _unique(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    if "axis" in attributes:
        x[axis_of(attributes["axis"], len(x))] = RUN_TIME
        length = shape_of(inputs[0])[attributes["axis"]]
    else:
        x, length = [RUN_TIME], product(x)
    return [tuple(x), (RUN_TIME,), (length,), (RUN_TIME,)][:count]


@rule("NonMaxSuppression")
def _suppressed(inputs, attributes, count):
    return [(RUN_TIME, 3)]


@rule("Slice")
def _slice(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    starts, ends = numbers(inputs[1]), numbers(inputs[2])
    axes = elements(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else range(len(starts))
    steps = numbers(inputs[4]) if len(inputs) > 4 else [1] * len(starts)
    for start, end, a, step in zip(starts, ends, axes, steps):
        run_time = any(n is RUN_TIME for n in (start, end, step))
        size = None if run_time else slice_size(x[a], start, end, step)
        x[a] = RUN_TIME if size is None else size
    return [tuple(x)]


@rule("Gather")
def _gather(inputs, attributes, count):
    x, index = shape_of(inputs[0]), shape_of(inputs[1])
    axis = axis_of(attributes.get("axis", 0), len(x))
    return [x[:axis] + index + x[axis + 1 :]]


@rule("GatherElements")
def _gather_elements(inputs, attributes, count):
    return [shape_of(inputs[1])]


@rule("GatherND")
def _gather_nd(inputs, attributes, count):
    x, index = shape_of(inputs[0]), shape_of(inputs[1])
    batch = attributes.get("batch_dims", 0)
    return [index[:-1] + x[batch + index[-1] :]]


@rule("OneHot")
def _one_hot(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    (depth,) = numbers(inputs[1])
    x.insert(axis_of(attributes.get("axis", -1), len(x) + 1), depth)
    return [tuple(x)]
