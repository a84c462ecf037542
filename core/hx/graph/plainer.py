"""Operators written with plainer ones, for dtypes that onnxruntime has no kernel for.

Most are for float64, and for convolutions and means of integers. A function here gets an operator's
inputs and attributes and returns its value, as in `lowering`; if it is not exact, it is right to
the last digits of a float64. All others are refused: see `casting`.
"""

from __future__ import annotations

import functools
import math

import torch

from .lowering import LOWERINGS
from .operator_forms import OperatorForms

PLAIN = OperatorForms(
    {name: LOWERINGS[name] for name in ("Gelu", "Mish", "HardSwish", "LayerNormalization")}
)


# Activations.


@PLAIN.of("LeakyRelu")
def leaky_relu(op, inputs, attributes, count):
    return prelu(op, [inputs[0], attributes.get("alpha", 0.01)], {}, count)


@PLAIN.of("PRelu")
def prelu(op, inputs, attributes, count):
    x, slope = inputs
    return op.Where(op.Less(x, 0), op.Mul(x, slope), x)


@PLAIN.of("Elu")
def elu(op, inputs, attributes, count):
    x, alpha = inputs[0], attributes.get("alpha", 1.0)
    return op.Where(op.Less(x, 0), op.Mul(_expm1(op, x), alpha), x)


@PLAIN.of("Celu")
def celu(op, inputs, attributes, count):
    x, alpha = inputs[0], attributes.get("alpha", 1.0)
    return op.Where(op.Less(x, 0), op.Mul(_expm1(op, op.Div(x, alpha)), alpha), x)


@PLAIN.of("Selu")
def selu(op, inputs, attributes, count):
    alpha, gamma = 1.6732632423543772848, 1.0507009873554804934
    return op.Mul(elu(op, inputs, {"alpha": alpha}, count), gamma)


@PLAIN.of("HardSigmoid")
def hard_sigmoid(op, inputs, attributes, count):
    alpha, beta = attributes.get("alpha", 0.2), attributes.get("beta", 0.5)
    return op.Clip(op.Add(op.Mul(inputs[0], alpha), beta), 0, 1)


@PLAIN.of("Softplus")
def softplus(op, inputs, attributes, count):
    (x,) = inputs
    return op.Add(op.Relu(x), _log1p(op, op.Exp(op.Neg(op.Abs(x)))))


# Functions of one number.


def _log1p(op, x):
    """Compute log(1 + x); the quotient restores the digits of x that 1 + x loses."""
    above = op.Add(x, 1)
    exact = op.Div(op.Mul(op.Log(above), x), op.Sub(above, 1))
    return op.Where(op.Or(op.Equal(above, 1), op.IsInf(above)), x, exact)


def _expm1(op, x):
    t = op.Tanh(op.Mul(x, 0.5))
    near = op.Div(op.Mul(t, 2), op.Sub(1, t))
    return op.Where(op.Less(op.Abs(x), 1), near, op.Sub(op.Exp(x), 1))


@PLAIN.of("Tan")
def tan(op, inputs, attributes, count):
    return op.Div(op.Sin(inputs[0]), op.Cos(inputs[0]))


@PLAIN.of("Sinh")
def sinh(op, inputs, attributes, count):
    (x,) = inputs
    t = op.Tanh(op.Mul(x, 0.5))
    near = op.Div(op.Mul(t, 2), op.Mul(op.Sub(1, t), op.Add(1, t)))
    root = op.Exp(op.Mul(op.Abs(x), 0.5))  # its square may overflow where half of it does not
    far = op.Sub(op.Mul(op.Mul(root, 0.5), root), op.Div(op.Div(0.5, root), root))
    return op.Where(op.Less(op.Abs(x), 1), near, op.Mul(op.Sign(x), far))


@PLAIN.of("Cosh")
def cosh(op, inputs, attributes, count):
    root = op.Exp(op.Mul(op.Abs(inputs[0]), 0.5))
    return op.Add(op.Mul(op.Mul(root, 0.5), root), op.Div(op.Div(0.5, root), root))


def _atan(op, x):
    """Halve angles of up to an eighth of a turn twice; then use Taylor's series."""
    large = op.Greater(op.Abs(x), 1)
    a = op.Where(large, op.Reciprocal(x), x)
    for _ in range(2):
        a = op.Div(a, op.Add(op.Sqrt(op.Add(op.Mul(a, a), 1)), 1))
    square = op.Mul(a, a)
    series = op.constant(1 / 25, x.dtype)
    for n in range(23, 0, -2):
        series = op.Sub(1 / n, op.Mul(series, square))
    angle = op.Mul(op.Mul(series, a), 4)
    return op.Where(large, op.Sub(op.Mul(op.Sign(x), math.pi / 2), angle), angle)


@PLAIN.of("Atan")
def atan(op, inputs, attributes, count):
    return _atan(op, inputs[0])


@PLAIN.of("Asin")
def asin(op, inputs, attributes, count):
    (x,) = inputs
    return _atan(op, op.Div(x, op.Sqrt(op.Mul(op.Sub(1, x), op.Add(1, x)))))


@PLAIN.of("Acos")
def acos(op, inputs, attributes, count):
    (x,) = inputs
    return op.Mul(_atan(op, op.Sqrt(op.Div(op.Sub(1, x), op.Add(1, x)))), 2)


@PLAIN.of("Asinh")
def asinh(op, inputs, attributes, count):
    (x,) = inputs
    size = op.Abs(x)
    square = op.Mul(size, size)
    near = _log1p(op, op.Add(size, op.Div(square, op.Add(op.Sqrt(op.Add(square, 1)), 1))))
    far = op.Add(op.Log(size), math.log(2))
    return op.Mul(op.Sign(x), op.Where(op.Less(size, 1e9), near, far))


@PLAIN.of("Acosh")
def acosh(op, inputs, attributes, count):
    (x,) = inputs
    above = op.Sub(x, 1)
    near = _log1p(op, op.Add(above, op.Sqrt(op.Mul(above, op.Add(x, 1)))))
    return op.Where(op.Greater(x, 1e9), op.Add(op.Log(x), math.log(2)), near)


@PLAIN.of("Atanh")
def atanh(op, inputs, attributes, count):
    (x,) = inputs
    return op.Mul(_log1p(op, op.Div(op.Mul(x, 2), op.Sub(1, x))), 0.5)


@PLAIN.of("Erf")
def erf(op, inputs, attributes, count):
    """Use a polynomial of the square near 0; far from it, 1 minus the tail of a bell curve."""
    (x,) = inputs
    size = op.Clip(op.Abs(x), 0, 6)  # from there on it is 1
    square = op.Mul(size, size)
    near = op.Mul(_fitted(op, square, _slope, 0, 4), x)
    far = op.Mul(_fitted(op, size, torch.special.erfcx, 2, 6), op.Exp(op.Neg(square)))
    return op.Where(op.Less(size, 2), near, op.Mul(op.Sign(x), op.Sub(1, far)))


def _slope(square):
    root = square.sqrt()
    return torch.special.erf(root) / root


@functools.cache
def _chebyshev(function, low, high):
    """Coefficients of Chebyshev's sum for a smooth function, the constant first."""
    n = 48
    odd = 2 * torch.arange(n, dtype=torch.float64) + 1
    at = torch.cos(odd * (math.pi / (2 * n)))
    samples = function((low + high) / 2 + (high - low) / 2 * at)
    # Whole turns are left out while they are whole numbers, so that no digit is lost.
    waves = torch.cos(
        torch.arange(n, dtype=torch.float64)[:, None] * odd % (4 * n) * (math.pi / (2 * n))
    )
    found = (waves @ samples) * (2 / n)
    found[0] /= 2
    return found[: int((found.abs() > 1e-16).nonzero().max()) + 1].tolist()


def _fitted(op, x, function, low, high):
    """Evaluate by Clenshaw's rule."""
    twice = op.Mul(op.Sub(x, (low + high) / 2), 4 / (high - low))
    first, *more = _chebyshev(function, low, high)
    before, now = op.constant(0.0, x.dtype), op.constant(more[-1], x.dtype)
    for term in more[-2::-1]:
        before, now = now, op.Add(op.Sub(op.Mul(twice, now), before), term)
    return op.Add(op.Sub(op.Mul(op.Mul(twice, 0.5), now), before), first)


# Normalization.


@PLAIN.of("InstanceNormalization")
def instance_normalization(op, inputs, attributes, count):
    x, scale, bias = inputs
    axes = list(range(2, x.rank))
    centred = op.Sub(x, op.ReduceMean(x, axes))
    variance = op.ReduceMean(op.Mul(centred, centred), axes)
    y = op.Div(centred, op.Sqrt(op.Add(variance, attributes.get("epsilon", 1e-5))))
    trailing = [a - 1 for a in axes]
    return op.Add(op.Mul(y, op.Unsqueeze(scale, trailing)), op.Unsqueeze(bias, trailing))


# Windows: gathered, axis by axis.


def _windows(op, x, kernel, strides, dilations):
    """Return all windows of x[n, c, a, ...]: [n, c, places of a, elements of a, ...]."""
    for i in reversed(range(len(kernel))):
        length = dilations[i] * (kernel[i] - 1) + 1
        places = (x.shape[2 + i] - length) // strides[i] + 1
        starts = op.Mul(op.Range(0, op.constant(places), 1), strides[i])
        inside = op.constant([k * dilations[i] for k in range(kernel[i])])
        x = op.Gather(x, op.Add(op.Unsqueeze(starts, [1]), inside), axis=2 + i)
    return x


def _extent(attributes, spatial):
    """Strides, dilations, and pads at the start and at the end of each axis."""
    ones = [1] * spatial
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    pads = attributes.get("pads", [0] * (2 * spatial))
    return strides, dilations, pads[:spatial], pads[spatial:]


def _padded(op, x, before, after):
    return op.Pad(x, [0, 0, *before, 0, 0, *after]) if any([*before, *after]) else x


def _biased(op, y, bias):
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, list(range(1, y.rank - 1))))


@PLAIN.of("Conv")
def conv(op, inputs, attributes, count):
    """Multiply each window by the weights, as one product of matrices per group."""
    x, weight, *bias = inputs
    spatial = x.rank - 2
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or weight.dynamic:
        return NotImplemented
    channels, depth, *kernel = weight.shape
    group = attributes.get("group", 1)
    strides, dilations, before, after = _extent(attributes, spatial)
    windows = _windows(op, _padded(op, x, before, after), kernel, strides, dilations)
    places = list(windows.shape[2::2])
    elements = [3 + 2 * i for i in range(spatial)]
    windows = op.Transpose(windows, perm=[0, 1, *elements, *(a - 1 for a in elements)])
    terms = depth * math.prod(kernel)
    columns = op.Reshape(windows, op.sizes([x.shape[0], group, terms, -1]))
    rows = op.Reshape(weight, [group, channels // group, terms])
    y = op.Reshape(op.MatMul(rows, columns), op.sizes([x.shape[0], channels, *places]))
    return _biased(op, y, *bias) if bias else y


@PLAIN.of("ConvTranspose")
def conv_transpose(op, inputs, attributes, count):
    """Convolve with flipped weights, over elements with zeros between them."""
    x, weight, *bias = inputs
    spatial = x.rank - 2
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or weight.dynamic:
        return NotImplemented
    depth, each, *kernel = weight.shape
    group = attributes.get("group", 1)
    strides, dilations, before, after = _extent(attributes, spatial)
    more = attributes.get("output_padding", [0] * spatial)
    for i, stride in enumerate(strides):
        if stride > 1:
            x = _apart(op, x, 2 + i, stride)
    reach = [d * (k - 1) for d, k in zip(dilations, kernel)]
    x = _padded(op, x, [r - p for r, p in zip(reach, before)],
                [r - p + m for r, p, m in zip(reach, after, more)])  # fmt: skip
    axes = list(range(2, 2 + spatial))
    turned = op.Slice(weight, [-1] * spatial, [-(2**31)] * spatial, axes, [-1] * spatial)
    split = op.Reshape(turned, [group, depth // group, each, *kernel])
    turned = op.Transpose(split, perm=[0, 2, 1, *(a + 1 for a in axes)])
    weight = op.Reshape(turned, [group * each, depth // group, *kernel])
    return conv(op, [x, weight, *bias], {"group": group, "dilations": dilations}, count)


def _apart(op, x, axis, stride):
    """Insert zeros between the elements of an axis."""
    ahead, size, behind = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    pads = [0] * (2 * (x.rank + 1))
    pads[-(x.rank - axis)] = stride - 1
    spread = op.Pad(op.Unsqueeze(x, [axis + 1]), pads)
    whole = op.Reshape(spread, op.sizes([*ahead, size * stride, *behind]))
    return op.Slice(whole, [0], op.sizes([(size - 1) * stride + 1]), [axis])


@PLAIN.of("AveragePool")
def average_pool(op, inputs, attributes, count):
    (x,) = inputs
    kernel = attributes["kernel_shape"]
    spatial = len(kernel)
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return NotImplemented
    strides, dilations, before, after = _extent(attributes, spatial)
    beyond = [0] * spatial
    if attributes.get("ceil_mode"):
        # A last window reaches beyond the padding; none starts in that, as in onnxruntime.
        for i, n in enumerate(x.shape[2:]):
            free = n + before[i] + after[i] - dilations[i] * (kernel[i] - 1) - 1
            last = (free + strides[i] - 1) // strides[i]
            within = (n + before[i] - 1) // strides[i]
            if not op.at_most(last, within):
                last = last - op.larger(last - within, 0)
            beyond[i] = last * strides[i] - free

    def total(x):
        axes = [3 + 2 * i for i in range(spatial)]
        return op.ReduceSum(_windows(op, x, kernel, strides, dilations), axes, keepdims=0)

    sums = total(op.Pad(x, op.sizes([0, 0, *before, 0, 0, *map(sum, zip(after, beyond))])))
    inside = op.Expand(op.constant(1, x.dtype), op.sizes([1, 1, *x.shape[2:]]))
    ends = beyond
    if attributes.get("count_include_pad"):
        inside = op.Pad(inside, op.sizes([0, 0, *before, 0, 0, *after]), 1)
    else:
        inside = _padded(op, inside, before, [0] * spatial)
        ends = list(map(sum, zip(after, beyond)))
    return op.Div(sums, total(op.Pad(inside, op.sizes([0] * (4 + spatial) + ends))))
