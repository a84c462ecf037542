"""Functions that PyTorch composes of others in C++, composed here in Python.

In C++, sizes are plain numbers; here they stay sizes, and views stay views.
"""

from __future__ import annotations

import functools
import math

from hx import case, converter
from hx.lazy import torch

from ._common import is_one

PAIR = ["float32[n,3]", "float32[n,3]"]
CONVERTERS: list = []


def composed(*targets, cases):
    """Register a function that runs in place of its targets, so that its calls are converted."""

    def register(function):
        def convert(op, *args, **kwargs):
            return op.instead(function)

        named = functools.update_wrapper(convert, function)
        named.composed = True  # hx then expects no value from it
        CONVERTERS.append(converter(*targets, cases=cases)(named))
        return function

    return register


# Joining side by side.


@composed("torch.hstack", cases=[case(PAIR), case(["float32[n]", "float32[2]"])])
def hstack(tensors):
    tensors = torch.atleast_1d(*tensors) if len(tensors) > 1 else [torch.atleast_1d(*tensors)]
    return torch.cat(tensors, 0 if tensors[0].dim() == 1 else 1)


@composed("torch.vstack", "torch.row_stack", cases=[case(PAIR), case(["float32[n]", "float32[n]"])])
def vstack(tensors):
    return torch.cat([x.unsqueeze(0) if x.dim() == 1 else torch.atleast_2d(x) for x in tensors])


@composed("torch.dstack", cases=[case(PAIR), case(["float32[n]", "float32[n]"])])
def dstack(tensors):
    return torch.cat([_three(x) for x in tensors], 2)


@composed("torch.column_stack", cases=[case(PAIR), case(["float32[n]", "float32[n,2]"])])
def column_stack(tensors):
    return torch.cat([x if x.dim() > 1 else x.reshape(-1, 1) for x in tensors], 1)


@composed("torch.ops.aten.atleast_3d", cases=[])
def atleast_3d(tensors):
    return [_three(x) for x in tensors] if isinstance(tensors, (list, tuple)) else _three(tensors)


def _three(x):
    if x.dim() == 2:
        return x.unsqueeze(2)
    return x.unsqueeze(0).unsqueeze(2) if x.dim() == 1 else x if x.dim() else x.reshape(1, 1, 1)


@composed("torch.hsplit", cases=[case("float32[n,6]", 3), case("float32[6]", [2, 3])])
def hsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    places = _first(indices_or_sections, indices, sections)
    return torch.tensor_split(input, places, dim=min(input.dim() - 1, 1))


@composed("torch.vsplit", cases=[case("float32[6,n]", 3), case("float32[6,n]", [2, 3])])
def vsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    return torch.tensor_split(input, _first(indices_or_sections, indices, sections), dim=0)


@composed("torch.dsplit", cases=[case("float32[n,2,6]", 3), case("float32[n,2,6]", [2, 3])])
def dsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    return torch.tensor_split(input, _first(indices_or_sections, indices, sections), dim=2)


def _first(*given):
    return next(x for x in given if x is not None)


@composed("torch.fliplr", cases=[case("float32[n,3]")])
def fliplr(input):
    return input.flip(1)


@composed("torch.flipud", cases=[case("float32[n,3]")])
def flipud(input):
    return input.flip(0)


def _both(m, n):
    """Return the size to which two sizes broadcast."""
    sure = [size for size in (m, n) if type(size) is int and size != 1]
    return sure[0] if sure else n if is_one(m) else max(m, n)


@composed("torch.broadcast_tensors", cases=[case("float32[n,1]", "float32[3]")])
def broadcast_tensors(*tensors):
    tensors = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    rank = max(x.dim() for x in tensors)
    shape = [1] * rank
    for x in tensors:
        for i, n in enumerate(x.shape, rank - x.dim()):
            shape[i] = _both(shape[i], n)
    return tuple(x.expand(shape) for x in tensors)


@composed("torch.isreal", cases=[case("float32[n,3]")])
def isreal(input):
    if input.dtype.is_complex:
        return input.imag == 0
    return torch.ones_like(input, dtype=torch.bool)


@composed("torch.Tensor.sum_to_size", cases=[case("float32[n,2,3]", 2, 1)])
def sum_to_size(self, *size):
    size = list(size[0]) if size and isinstance(size[0], (list, tuple)) else list(size)
    if not size:
        return self.sum()
    more = self.dim() - len(size)
    ones = [more + i for i, n in enumerate(size) if is_one(n) and not is_one(self.shape[more + i])]
    x = self.sum([*range(more), *ones], keepdim=True) if more or ones else self
    return x.reshape(size) if more else x


# Products.


@composed(
    "torch.inner", cases=[case("float32[n,3]", "float32[2,3]"), case("float32[3]", "float32[3]")]
)
def inner(input, other):
    if not input.dim() or not other.dim():
        return input * other
    return torch.tensordot(input, other, dims=([-1], [-1]))


@composed("torch.ops.aten.tensordot", cases=[])  # that of Python calls it
def tensordot(input, other, dims_self, dims_other):
    axes = [a % input.dim() for a in dims_self], [a % other.dim() for a in dims_other]
    left = [a for a in range(input.dim()) if a not in axes[0]]
    right = [a for a in range(other.dim()) if a not in axes[1]]
    shape = [input.shape[a] for a in left] + [other.shape[a] for a in right]
    for one, two in zip(*axes):  # a size of 1 broadcasts to any
        if is_one(input.shape[one]):
            other = other.sum(two, keepdim=True, dtype=other.dtype)
        elif is_one(other.shape[two]):
            input = input.sum(one, keepdim=True, dtype=input.dtype)
    shared = math.prod(input.shape[a] for a in axes[0])
    a = input.permute(*left, *axes[0]).reshape(-1, shared)
    b = other.permute(*axes[1], *right).reshape(shared, -1)
    return (a @ b).reshape(shape)


@composed(
    "torch.kron", cases=[case("float32[n,2]", "float32[3,m]"), case("float32[n]", "float32[2,3]")]
)
def kron(input, other):
    rank = max(input.dim(), other.dim())
    a = input.reshape([1] * (rank - input.dim()) + list(input.shape))
    b = other.reshape([1] * (rank - other.dim()) + list(other.shape))
    sizes = [m * n for m, n in zip(a.shape, b.shape)]
    for axis in range(rank):
        a, b = a.unsqueeze(2 * axis + 1), b.unsqueeze(2 * axis)
    return (a * b).reshape(sizes)


@composed("torch.linalg.multi_dot", "torch.chain_matmul",
          cases=[case(["float32[n,3]", "float32[3,4]", "float32[4,2]"])])  # fmt: skip
def multi_dot(*tensors):
    tensors = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    return functools.reduce(torch.matmul, tensors)


@composed("torch.linalg.vander", cases=[case("float32[n]"), case("float32[2,n]", N=4)])
def vander(x, *, N=None):
    x = x if x.dim() else x.reshape(1)
    count = x.shape[-1] if N is None else N
    steps = torch.arange(count, device=x.device)
    return x.unsqueeze(-1) ** steps


@composed("torch.linalg.tensorinv", cases=[])  # see tests/converters/test_linalg.py
def tensorinv(A, ind=2):
    rows, columns = A.shape[:ind], A.shape[ind:]
    return torch.linalg.inv(A.reshape(math.prod(rows), -1)).reshape([*columns, *rows])


@composed("torch.linalg.tensorsolve", cases=[])
def tensorsolve(A, B, dims=None):
    if dims is not None:
        last = [d % A.dim() for d in ([dims] if isinstance(dims, int) else dims)]
        A = A.permute(*[d for d in range(A.dim()) if d not in last], *last)
    shape = A.shape[B.dim() :]
    return torch.linalg.solve(A.reshape(-1, math.prod(shape)), B.reshape(-1)).reshape(shape)


@composed("torch.vander", cases=[case("float32[n]"), case("float32[n]", 3, increasing=True)])
def powers(x, N=None, increasing=False):
    columns = vander(x, N=N)
    return columns if increasing else columns.flip(-1)


@composed("torch.linalg.vecdot",
          cases=[case("float32[n,3]", "float32[n,3]"), case("float32[n,3]", "float32[n,1]", dim=0)])  # fmt: skip
def vecdot(x, y, *, dim=-1):
    return (x.conj() * y).sum(dim, dtype=torch.result_type(x, y))


@composed("torch.matrix_power", "torch.linalg.matrix_power",
          cases=[case("float32[n,3,3]", 5), case("float32[n,m,m]", 0)])  # fmt: skip
def matrix_power(input, n):
    if not n:
        size = input.shape[-1]
        return torch.eye(size, dtype=input.dtype, device=input.device).expand(input.shape).clone()
    square, power = torch.linalg.inv(input) if n < 0 else input, None
    digits = f"{abs(n):b}"
    for place, digit in enumerate(reversed(digits)):
        square = square @ square if place else square
        if digit == "1":
            power = square if power is None else power @ square
    return power if len(digits) > 1 else power.clone()


@composed("torch.combinations",
          cases=[case("float32[n]"), case("float32[n]", 2, True), case("float32[n]", r=3)])  # fmt: skip
def combinations(input, r=2, with_replacement=False):
    if not r:
        return input.new_empty(0)
    places = torch.meshgrid(*[torch.arange(input.shape[0])] * r, indexing="ij")
    kept = torch.ones_like(places[0], dtype=torch.bool)
    for one, two in zip(places, places[1:]):
        kept = kept & (one <= two if with_replacement else one < two)
    return input[torch.stack(places, -1)[kept]]


# Statistics.


@composed(
    "torch.cov",
    cases=[case("float32[3,n]"), case("float32[n]"), case("float32[3,n]", correction=0)],
)
def cov(input, *, correction=1, fweights=None, aweights=None):
    x = input.reshape(1, -1) if input.dim() < 2 else input
    given = [each for each in (fweights, aweights) if each is not None]
    weights = functools.reduce(torch.mul, given) if given else None
    total = x.shape[1] if weights is None else weights.sum()
    summed = (x if weights is None else x * weights).sum(1, keepdim=True)
    centred = x - summed / total
    product = centred @ (centred if weights is None else centred * weights).mH
    if aweights is not None and correction:
        correction = correction * (weights * aweights).sum() / total
    rest = total - correction
    rest = rest.clamp(min=0) if isinstance(rest, torch.Tensor) else max(rest, 0)
    return (product / rest).squeeze()


@composed("torch.corrcoef", cases=[case("float32[3,n]"), case("float32[n]")])
def corrcoef(input):
    c = cov(input)
    if not c.dim():
        return c / c
    d = c.diagonal().sqrt()
    return (c / d.unsqueeze(1) / d.unsqueeze(0)).clamp(-1, 1)


@composed("torch.special.ndtr", cases=[case("float32[n,3]")])
def ndtr(input):
    x = input if input.dtype.is_floating_point else input.to(torch.get_default_dtype())
    y = x * math.sqrt(0.5)
    return torch.where(x < -1, 0.5 * torch.erfc(-y), 0.5 * (1 + torch.erf(y)))


@composed("torch.isclose", cases=[case("float32[n,3]", "float32[n,3]", 0.5, 0.5)])
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    close = input == other
    if equal_nan and input.dtype.is_floating_point:
        close = close | (input.isnan() & other.isnan())
    default = torch.get_default_dtype()
    if not input.dtype.is_floating_point and not input.dtype.is_complex:
        input = input.to(default) if input.dtype == torch.bool else input
        other = other.to(default)
    gap = (input - other).abs()
    return close | (gap.isfinite() & (gap <= atol + (rtol * other).abs()))


@composed("torch.float_power", cases=[case("float32[n,3]", 2.5), case(2.0, "float32[n]")])
def float_power(input, exponent):
    wide = [
        x.to(torch.float64) if isinstance(x, torch.Tensor) else float(x) for x in (input, exponent)
    ]
    return torch.pow(*wide)


# Areas and slopes.


def _steps(y, x, axis):
    if x.dim() == 1:
        x = x.reshape([-1 if a == axis else 1 for a in range(y.dim())])
    return x.diff(dim=axis if x.dim() == y.dim() else axis - y.dim())


def _twice(y, axis):
    """Add up both sides of each step."""
    n = y.shape[axis]
    return y.narrow(axis, 0, n - 1) + y.narrow(axis, 1, n - 1)


@composed("torch.trapezoid", "torch.trapz", cases=[
    case("float32[n,5]"), case("float32[n,5]", "float32[5]"), case("float32[n,5]", dx=0.5, dim=0),
])  # fmt: skip
def trapezoid(y, x=None, *, dx=1, dim=-1):
    axis = dim % y.dim()
    steps = dx if x is None else _steps(y, x, axis)
    return (_twice(y, axis) * steps).sum(axis) / 2  # 0 for no element or one


@composed(
    "torch.cumulative_trapezoid", cases=[case("float32[n,5]"), case("float32[n,5]", "float32[5]")]
)
def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    axis = dim % y.dim()
    if x is None:
        return (dx / 2 * _twice(y, axis)).cumsum(axis)
    return (_steps(y, x, axis) * _twice(y, axis) / 2).cumsum(axis)


@composed("torch.gradient", cases=[
    case("float32[n,5]"), case("float32[n,5]", dim=1, edge_order=2), case("float32[n,5]", spacing=2.0),
    case("float32[n,5]", spacing=[lambda: torch.tensor([0.0, 1.0, 3.0, 4.0, 7.0])], dim=1),
])  # fmt: skip
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    axes = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    spacing = 1 if spacing is None else spacing
    each = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    return tuple(_slopes(input, a % input.dim(), h, edge_order) for a, h in zip(axes, each))


def _slopes(y, axis, spacing, edge_order):
    """Return slopes between neighbours on both sides; at the ends, of the nearest two or three."""
    n = y.shape[axis]
    even = not isinstance(spacing, torch.Tensor) or not spacing.dim()
    if not even:
        steps = spacing.diff().reshape([-1 if a == axis else 1 for a in range(y.dim())])

    def at(start, count=1):
        return y.narrow(axis, start, count)

    def wide(start, count=1):
        return spacing if even else steps.narrow(axis, start, count)

    left, right = wide(0, n - 2), wide(1, n - 2)
    if even:
        middle = (at(2, n - 2) - at(0, n - 2)) / (2 * spacing)
    else:
        middle = (
            at(0, n - 2) * (-right / (left * (left + right)))
            + at(1, n - 2) * ((right - left) / (left * right))
            + at(2, n - 2) * (left / (right * (left + right)))
        )
    if edge_order == 1:
        first = (at(1) - at(0)) / wide(0)
        last = (at(n - 1) - at(n - 2)) / wide(n - 2)
    else:
        first = _edge([at(0), at(1), at(2)], wide(0), wide(1))
        last = -_edge([at(n - 1), at(n - 2), at(n - 3)], wide(n - 2), wide(n - 3))
    return torch.cat([first, middle, last], axis)


def _edge(y, near, far):
    """Return the slope, at the first of three elements, of a parabola through them."""
    return (
        y[1] * ((near + far) / (near * far))
        - y[0] * ((2 * near + far) / (near * (near + far)))
        - y[2] * (near / (far * (near + far)))
    )


# Windows, and frequencies.


def _window(shape):
    """Make a window function from a shape: a function of positions divided by the last position.

    The last position of a periodic window lies one further.
    """

    def window(window_length, periodic=True, *numbers, dtype=None, **named):
        named = {k: v for k, v in named.items() if k in ("alpha", "beta")}
        places = torch.arange(window_length, dtype=dtype or torch.get_default_dtype())
        last = window_length if periodic else max(window_length - 1, 1)
        only = places.new_full((), window_length) == 1
        return torch.where(only, 1.0, shape(places / last, *numbers, **named))

    return window


def _turn(x, times=1):
    return torch.cos(x * (2 * math.pi * times))


def _kaiser(x, beta=12.0):
    inside = (1 - (2 * x - 1) ** 2).clamp(min=0).sqrt()
    return torch.i0(beta * inside) / torch.i0(torch.tensor(beta, dtype=x.dtype))


composed("torch.hann_window", cases=[])(_window(lambda x: 0.5 - 0.5 * _turn(x)))
composed("torch.hamming_window", cases=[])(
    _window(lambda x, alpha=0.54, beta=0.46: alpha - beta * _turn(x))
)
composed("torch.blackman_window", cases=[])(
    _window(lambda x: 0.42 - 0.5 * _turn(x) + 0.08 * _turn(x, 2))
)
composed("torch.bartlett_window", cases=[])(_window(lambda x: 1 - (2 * x - 1).abs()))
composed("torch.kaiser_window", cases=[])(_window(_kaiser))


@composed("torch.fft.fftfreq", cases=[])
def fftfreq(n, d=1.0, *, dtype=None, **_):
    places = torch.arange(n, dtype=dtype or torch.get_default_dtype())
    return torch.where(places < (n + 1) // 2, places, places - n) / (n * d)


@composed("torch.fft.rfftfreq", cases=[])
def rfftfreq(n, d=1.0, *, dtype=None, **_):
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype()) / (n * d)


# Losses; `reduction` is PyTorch's number for it.


def _in_all(x, reduction):
    return (lambda: x, x.mean, x.sum)[reduction]()


@composed("torch.triplet_margin_loss", cases=[])  # that of nn.functional calls it
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1
):
    far = torch.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, torch.pairwise_distance(positive, negative, p, eps))
    near = torch.pairwise_distance(anchor, positive, p, eps)
    return _in_all((margin + near - far).clamp(min=0), reduction)


@composed("torch.cosine_embedding_loss", cases=[])  # that of nn.functional calls it
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    eps = 1e-12
    squares = [(x * x).sum(-1) + eps for x in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    none = torch.zeros_like(cosine)
    like = torch.where(target == 1, 1 - cosine, none)
    unlike = torch.where(target == -1, (cosine - margin).clamp(min=0), none)
    return _in_all(like + unlike, reduction)


@composed("torch.as_strided_copy", cases=[case("float32[4,6]", [3, 2], [6, 2], 1)])
def as_strided_copy(input, size, stride, storage_offset=None):
    return torch.as_strided(input, size, stride, storage_offset).clone()
