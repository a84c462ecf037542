"""Convolutions whose number of groups is a size: each sample has its own kernels.

ONNX fixes the number of groups in the file. Here the elements under each kernel are laid side by
side and multiplied with it. If the size of the kernel is not fixed either (one picture is searched
for in another), the groups are computed one after the other.
"""

from __future__ import annotations

import itertools
import math

from ._common import unless_empty


def convolved(op, x, weight, bias, stride, begins, ends, dilation, groups):
    """Convolve [n, groups * in, ...] with [groups * out, in, ...]; options: one number an axis."""
    kernel = weight.shape[2:]
    if any(type(p) is not int or p for p in (*begins, *ends)):
        x = op.Pad(x, [0, 0, *begins, 0, 0, *ends])
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    size = [(n - r - 1) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride)]
    if all(type(k) is int for k in kernel):
        y = _beside(op, x, weight, stride, dilation, groups, size)
    else:
        y = _in_turn(op, x, weight, stride, dilation, groups, size)
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, list(range(1, x.rank - 1))))


def _beside(op, x, weight, stride, dilation, groups, size):
    kernel, axes, seen = weight.shape[2:], list(range(2, x.rank)), []
    for place in itertools.product(*map(range, kernel)):
        starts = [p * d for p, d in zip(place, dilation)]
        stops = [a + (n - 1) * s + 1 for a, n, s in zip(starts, size, stride)]
        here = op.Slice(x, op.sizes(starts), op.sizes(stops), axes, stride)
        seen.append(op.Unsqueeze(here, [2]))
    batch, width = x.shape[0], weight.shape[1]
    columns = seen[0] if len(seen) == 1 else op.Concat(*seen, axis=2)
    columns = op.Reshape(columns, op.sizes([batch, groups, width * len(seen), math.prod(size)]))
    rows = [1, groups, weight.shape[0] // groups, width * len(seen)]
    y = op.MatMul(op.Reshape(weight, op.sizes(rows)), columns)
    return op.Reshape(y, op.sizes([batch, weight.shape[0], *size]))


def _in_turn(op, x, weight, stride, dilation, groups, size):
    batch, width, out = x.shape[0], weight.shape[1], weight.shape[0] // groups
    rest = list(range(2, x.rank + 1))
    parts = op.Reshape(x, op.sizes([batch, groups, width, *x.shape[2:]]))
    parts = op.Transpose(parts, perm=[1, 0, *rest])
    kernels = op.Reshape(weight, op.sizes([groups, out, *weight.shape[1:]]))

    def one(part, own):
        return op.Conv(part, own, strides=stride, dilations=dilation)

    def each():
        inputs = [op.input(v.dtype, v.shape[1:]) for v in (parts, kernels)]
        found = op.Scan(parts, kernels, body=op.body(one, *inputs), num_scan_inputs=2)
        found.sized((groups, batch, out, *size))
        return [found]

    (y,) = unless_empty(op, groups, each)
    y = op.Transpose(y, perm=[1, 0, *rest])
    return op.Reshape(y, op.sizes([batch, weight.shape[0], *size]))


def transposed(op, x, weight, bias, stride, pads, more, dilation, groups):
    """Transpose-convolve [n, groups * in, ...] with [groups * in, out, ...].

    Inserts zeros between elements and convolves with the flipped kernels.
    """
    kernel = weight.shape[2:]
    for axis, step in enumerate(stride, 2):
        if step > 1:
            x = _spread(op, x, axis, step)
    width, out = weight.shape[0] // groups, weight.shape[1]
    turned = op.Reshape(weight, op.sizes([groups, width, out, *kernel]))
    turned = op.Transpose(turned, perm=[0, 2, 1, *range(3, 3 + len(kernel))])
    turned = op.Reshape(turned, op.sizes([groups * out, width, *kernel]))
    axes = list(range(2, turned.rank))
    turned = op.Slice(turned, [-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes))
    begins = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, pads)]
    ends = [b + m for b, m in zip(begins, more)]
    ones = [1] * len(kernel)
    return convolved(op, x, turned, bias, ones, begins, ends, dilation, groups)


def _spread(op, x, axis, step):
    """Insert step - 1 zeros between neighbours along an axis."""
    size = x.shape[axis]
    apart = op.Unsqueeze(x, [axis + 1])
    apart = op.Pad(apart, [0] * (apart.rank + axis + 1) + [step - 1] + [0] * (x.rank - 1 - axis))
    apart = op.Reshape(apart, op.sizes([*x.shape[:axis], size * step, *x.shape[axis + 1 :]]))
    return op.Slice(apart, [0], op.sizes([(size - 1) * step + 1]), [axis])
