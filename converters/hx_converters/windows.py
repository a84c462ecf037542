"""Sliding windows over axes: unfold and fold."""

from __future__ import annotations

import math

from hx import case, converter

from ._common import counted, one_axis, pair


@converter("torch.Tensor.unfold", cases=[case("float32[n,3,7]", 2, 3, 2)])
def unfold(op, self, dimension, size, step):
    """Take windows of one axis; the elements of a window lie on a new last axis."""
    if not self.rank:
        return op.Reshape(self, [1])
    axis = one_axis(dimension, self.rank)
    count = (self.shape[axis] - size) // step + 1
    starts = op.Unsqueeze(op.Mul(op.Range(0, op.constant(count), 1), op.constant(step)), [1])
    places = op.Add(starts, op.Unsqueeze(op.Range(0, op.constant(size), 1), [0]))
    windows = op.Gather(self, places, axis=axis)
    kept = [a for a in range(self.rank + 1) if a != axis + 1]
    return op.Transpose(windows, perm=[*kept, axis + 1])


def _places(op, size, kernel, dilation, stride):
    """Return [kernel, count]: the element of an axis at each position of each window."""
    count = (size - dilation * (kernel - 1) - 1) // stride + 1
    starts = op.Mul(counted(op, count), op.constant(stride))
    inside = op.Mul(counted(op, kernel), op.constant(dilation))
    return op.Add(op.Unsqueeze(inside, [1]), starts), count


@converter(
    "torch.ops.aten.im2col", cases=[case("float32[n,2,5,h]", [2, 3], [1, 1], [1, 0], [2, 1])]
)
def im2col(op, self, kernel_size, dilation, padding, stride):
    x = self if self.rank == 4 else op.Unsqueeze(self, [0])
    kernel, dilation, pads, stride = (pair(v) for v in (kernel_size, dilation, padding, stride))
    if any(type(p) is not int or p for p in pads):
        x = op.Pad(x, [0, 0, *pads, 0, 0, *pads])
    n, c, height, width = x.shape
    rows, down = _places(op, height, kernel[0], dilation[0], stride[0])
    columns, across = _places(op, width, kernel[1], dilation[1], stride[1])
    x = op.Gather(op.Gather(x, columns, axis=3), rows, axis=2)  # n c kh oh kw ow
    x = op.Transpose(x, perm=[0, 1, 2, 4, 3, 5])
    y = op.Reshape(x, op.sizes([n, c * (kernel[0] * kernel[1]), down * across]))
    return y if self.rank == 4 else op.Squeeze(y, [0])


@converter("torch.ops.aten.col2im",
           cases=[case("float32[n,8,20]", [5, 6], [2, 2], [1, 1], [0, 0], [1, 1],
                       opsets=(18, 20, 26))])  # fmt: skip
def col2im(op, self, output_size, kernel_size, dilation, padding, stride):
    x = self if self.rank == 3 else op.Unsqueeze(self, [0])
    kernel, dilation, pads, stride = (pair(v) for v in (kernel_size, dilation, padding, stride))
    y = op.Col2Im(x, op.sizes(pair(output_size)), kernel, dilations=dilation,
                  pads=[*pads, *pads], strides=stride)  # fmt: skip
    y.sized((x.shape[0], x.shape[1] // math.prod(kernel), *pair(output_size)))
    return y if self.rank == 3 else op.Squeeze(y, [0])
