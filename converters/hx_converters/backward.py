"""Backward operators of layers, which PyTorch calls if a model computes gradients itself.

Means over windows, resizing and padding multiply each axis by a matrix. Applied to the identity,
they give that matrix; its transpose propagates a gradient. A maximum passes the whole gradient to
the element that was the largest.
"""

from __future__ import annotations

from hx import case, converter

from ._common import counted, pair, reshaped
from ._halves import rounded_once
from .interpolation import cubic, nearest, smooth, smoothed, triangle
from .padding import pad
from .pooling import adaptive_avg_pool, avg_pool
from .scattering import ADDS


def _back(op, grad, axis, n, forward, rank=3):
    """Propagate a gradient back along an axis of n elements through `forward`.

    `forward` gets [n, 1, ..., n]: a batch of n inputs, each with a single 1.
    """
    places, between = counted(op, n), list(range(1, rank - 1))
    each = op.cast(op.Equal(op.Unsqueeze(places, [1]), places), grad.dtype)
    made = forward(op.Unsqueeze(each, between) if between else each)
    matrix = op.Squeeze(made, between) if between else made
    if axis == grad.rank - 2:
        return op.MatMul(matrix, grad)
    turned = op.Transpose(matrix, perm=[1, 0])
    if axis == grad.rank - 1:
        return op.MatMul(grad, turned)
    order = [*(i for i in range(grad.rank) if i != axis), axis]
    y = op.MatMul(op.Transpose(grad, perm=order), turned)
    return op.Transpose(y, perm=[order.index(i) for i in range(grad.rank)])


def _axes(x, spatial):
    return list(enumerate(range(x.rank - spatial, x.rank)))


def _avg_pool_back(spatial):
    @rounded_once
    def convert(op, grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override):  # fmt: skip
        windows = [pair(v, spatial) for v in (kernel_size, stride or kernel_size, padding)]
        grad = grad_output
        for i, axis in _axes(self, spatial):
            # This is the only divisor, for all axes together.
            divisor = divisor_override if i == 0 or divisor_override is None else 1

            def forward(x, how=(*(v[i] for v in windows), ceil_mode, count_include_pad, divisor)):
                return avg_pool(1)(op, x, *how)

            grad = _back(op, grad, axis, self.shape[axis], forward)
        return grad

    return convert


def _adaptive_avg_pool_back(spatial):
    @rounded_once
    def convert(op, grad_output, self):
        grad = grad_output
        for _, axis in _axes(self, spatial):

            def forward(x, count=grad_output.shape[axis]):
                return adaptive_avg_pool(1)(op, x, [count])

            grad = _back(op, grad, axis, self.shape[axis], forward)
        return grad

    return convert


def _pad_back(spatial, mode):
    @rounded_once
    def convert(op, grad_output, self, padding):
        grad = grad_output
        for i, axis in _axes(self, spatial):
            last = 2 * (spatial - 1 - i)  # the last axis comes first in it

            def forward(x, sides=tuple(padding[last : last + 2])):
                return pad(op, x, list(sides), mode)

            grad = _back(op, grad, axis, self.shape[axis], forward)
        return grad

    return convert


def _resized_back(resize, flags):
    """Make a converter for the gradient of a resize: it treats one axis at a time.

    The other axes have one element each meanwhile, which the resize leaves as it is.
    """

    @rounded_once
    def convert(op, grad_output, output_size, input_size, *how):
        spatial = grad_output.rank - 2
        given, factors = how[:flags], how[flags:] or [None] * spatial
        grad = grad_output
        for i, axis in _axes(grad_output, spatial):
            alone = [1] * (spatial - 1)
            factor = [] if factors[i] is None else [*map(float, alone), factors[i]]

            def forward(x, sizes=(*alone, output_size[i]), factor=factor):
                return resize(op, x, list(sizes), *given, *factor)

            grad = _back(op, grad, axis, input_size[axis], forward, rank=grad_output.rank)
        return grad

    return convert


def _max_back(spatial):
    @rounded_once
    def convert(op, grad_output, self, *how):
        lead, indices = list(self.shape[:-spatial]), how[-1]

        def flat(sizes):
            count = 1
            for n in sizes[-spatial:]:
                count = n * count
            return [*lead, count]

        grad, places = (reshaped(op, v, flat(v.shape)) for v in (grad_output, indices))
        empty = op.Expand(op.constant(0, grad.dtype), op.sizes(flat(self.shape)))
        y = op.ScatterElements(empty, places, grad, axis=len(lead), reduction="add")
        return reshaped(op, y, list(self.shape))

    return convert


def _sized(n, *sizes):
    """Make a spec for a batch of channels with `n` axes of these sizes."""
    return f"float32[n,2,{','.join(map(str, sizes[:n]))}]"


def _target(name, *cases):
    return converter(f"torch.ops.aten.{name}_backward", cases=list(cases))


CONVERTERS = []
for _n in (2, 3):
    _x, _whole = _sized(_n, 4, "h=9", 6), _sized(_n, 4, 8, 6)
    CONVERTERS += [
        _target(f"avg_pool{_n}d",
                case(_sized(_n, 2, 4, 3), _whole, [2], [], [0], False, True, None),
                case(_sized(_n, 3, 5, 4), _whole, [3], [2], [1], True, False, None),
                case(_sized(_n, 2, 4, 3), _whole, [2], [2], [0], False, True, 5),
                case(_sized(_n, 4, "h=9", 6), _x, [3], [1], [1], False, False, None))(_avg_pool_back(_n)),
        _target(f"_adaptive_avg_pool{_n}d", case(_sized(_n, 3, 3, 3), _x),
                case(_sized(_n, 2, 2, 2), _whole))(_adaptive_avg_pool_back(_n)),
        _target(f"adaptive_max_pool{_n}d",
                case(_sized(_n, 2, 3, 2), _whole, _sized(_n, 2, 3, 2).replace("float32", "int64") + "<16",
                     opsets=ADDS))(_max_back(_n)),
        _target(f"max_pool{_n}d_with_indices",
                case(_sized(_n, 2, 4, 3), _whole, [2], [2], [0], [1], False,
                     _sized(_n, 2, 4, 3).replace("float32", "int64") + "<32",
                     opsets=ADDS))(_max_back(_n)),
    ]  # fmt: skip
for _n in (1, 2, 3):
    _x, _sides = _sized(_n, "h=4", 5, 6), [1, 2] * _n
    CONVERTERS += [
        _target(f"{_name}_pad{_n}d",
                case(_sized(_n, 7, 8, 9), _sized(_n, 4, 5, 6), _sides))(_pad_back(_n, _mode))
        for _name, _mode in (("reflection", "reflect"), ("replication", "replicate"))
    ]  # fmt: skip

_RESIZES = [
    *((f"upsample_nearest{n}d", n, nearest("asymmetric", "floor"), ()) for n in (1, 2, 3)),
    *((f"_upsample_nearest_exact{n}d", n, nearest("half_pixel", "round_prefer_ceil"), ())
      for n in (1, 2, 3)),
    *((f"upsample_{name}{n}d", n, smooth("linear"), (False,))
      for n, name in enumerate(("linear", "bilinear", "trilinear"), 1)),
    ("upsample_bicubic2d", 2, smooth("cubic", cubic_coeff_a=-0.75), (True,)),
    ("_upsample_bilinear2d_aa", 2, smoothed(triangle), (False,)),
    ("_upsample_bicubic2d_aa", 2, smoothed(cubic), (False,)),
]  # fmt: skip
for _name, _n, _resize, _flags in _RESIZES:
    _before, _after = [4, 5, 6][:_n], [8, 7, 12][:_n]
    _grad = f"float32[2,3,{','.join(map(str, _after))}]"
    CONVERTERS.append(
        _target(_name, case(_grad, _after, [2, 3, *_before], *_flags))(
            _resized_back(_resize, len(_flags))
        )
    )
