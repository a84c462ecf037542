"""Random numbers: each run of the graph draws its own, as each call of the model does.

All are made from uniform or normal ones by the inverse of their distribution, so that they exist
in every opset. A proof compares only the dtype and shape of values that depend on them.
"""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import is_value


def drawing(*args, **kwargs):
    return case(*args, **kwargs, opsets=(13, 20, 21))


def _drawn(op, kind, shape, dtype):
    if op.opset > 21:
        op.refuse("onnxruntime draws no random numbers in opset 22 or newer",
                  "export with opset=21 or older")  # fmt: skip
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    if shape and all(type(n) is int for n in shape):
        made = getattr(op, kind)(shape=list(shape), dtype=wide)
    else:
        space = op.Expand(op.constant(0.0, wide), op.sizes(shape))
        made = getattr(op, f"{kind}Like")(space)
    made.sized(shape)
    return op.cast(made, dtype)


def uniform_numbers(op, shape, dtype):
    if dtype.is_complex:
        real, imaginary = (uniform_numbers(op, shape, dtype.to_real()) for _ in range(2))
        return op.complex(real, imaginary)
    return _drawn(op, "RandomUniform", shape, dtype)


def normal_numbers(op, shape, dtype):
    """Draw normal numbers; complex ones have variance 1 in all, half in each part."""
    if dtype.is_complex:
        parts = [op.Mul(normal_numbers(op, shape, dtype.to_real()), 0.5**0.5) for _ in range(2)]
        return op.complex(*parts)
    return _drawn(op, "RandomNormal", shape, dtype)


# From sizes.


# These have no case: a case gives tensors and numbers, and no traced size.


@converter("torch.rand", cases=[])
def rand(op, size, *, generator=None, dtype=None):
    return uniform_numbers(op, size, op.result.dtype)


@converter("torch.randn", cases=[])
def randn(op, size, *, generator=None, dtype=None):
    return normal_numbers(op, size, op.result.dtype)


@converter("torch.rand_like", complex=True, cases=[drawing("complex64[n,3]")])
@converter("torch.rand_like", cases=[drawing("float32[n,3]")])
def rand_like(op, input, *, dtype=None):
    return uniform_numbers(op, input.shape, op.result.dtype)


@converter("torch.randn_like", complex=True, cases=[drawing("complex64[n,3]")])
@converter("torch.randn_like", cases=[drawing("float32[n,3]")])
def randn_like(op, input, *, dtype=None):
    return normal_numbers(op, input.shape, op.result.dtype)


def _integers(op, shape, bounds):
    shape = [op.size(n) for n in shape]
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    steps = op.Mul(
        uniform_numbers(op, shape, torch.float64), op.constant(high - low, torch.float64)
    )
    return op.cast(op.Add(op.Floor(steps), op.constant(low, torch.float64)), op.result.dtype)


@converter("torch.randint", cases=[])
def randint(op, *bounds, low=None, high=None, size=None, generator=None, dtype=None):
    given = [*bounds, *(n for n in (low, high, size) if n is not None)]
    *bounds, size = given
    return _integers(op, size, bounds)


@converter("torch.randint_like", cases=[drawing("float32[n,3]", 5), drawing("float32[n,3]", 2, 5)])
def randint_like(op, input, *bounds, low=None, high=None, dtype=None):
    return _integers(op, input.shape, [*bounds, *(n for n in (low, high) if n is not None)])


@converter("torch.randperm", cases=[])
def randperm(op, n, *, generator=None, dtype=None):
    _, order = op.TopK(uniform_numbers(op, [n], torch.float32), op.sizes([n]), outputs=2)
    return op.cast(order, op.result.dtype)


# Distributions.


@converter("torch.normal", cases=[drawing("float32[n,3]", 0.5), drawing(1.0, lambda: torch.rand(4, 3)),
                                  drawing("float32[4,3]", lambda: torch.rand(3))])  # fmt: skip
def normal(op, mean, std=1.0, size=None, *, generator=None, dtype=None):
    spec = op.result
    if size is None:
        size = mean.shape if is_value(mean) else std.shape
        if is_value(mean) and is_value(std) and not op.same(mean.shape, std.shape):
            size = op.Add(mean, std).shape
    wide = normal_numbers(op, size, spec.dtype)
    return op.Add(op.Mul(wide, op.cast(std, spec.dtype)), op.cast(mean, spec.dtype))


@converter("torch.ops.aten.normal_functional", cases=[drawing("float32[n,3]", 1.0, 2.0)])
def normal_(op, self, mean=0.0, std=1.0, *, generator=None):
    numbers = normal_numbers(op, self.shape, self.dtype)
    return op.Add(op.Mul(numbers, op.constant(float(std), self.dtype)),
                  op.constant(float(mean), self.dtype))  # fmt: skip


def _between(op, self):
    """Draw uniform numbers, never 0 or 1, so that their logarithms are finite."""
    numbers = uniform_numbers(op, self.shape, torch.float32)
    return op.Clip(numbers, 1e-7, 1 - 1e-7)


@converter("torch.ops.aten.uniform", cases=[drawing("float32[n,3]", -1.0, 2.0)])
def uniform(op, self, from_=0.0, to=1.0, *, generator=None):
    numbers = uniform_numbers(op, self.shape, self.dtype)
    width = op.Mul(numbers, op.constant(float(to - from_), self.dtype))
    return op.Add(width, op.constant(float(from_), self.dtype))


@converter("torch.ops.aten.exponential", cases=[drawing("float32[n,3]", 2.0)])
def exponential(op, self, lambd=1.0, *, generator=None):
    return op.cast(op.Div(op.Neg(op.Log(_between(op, self))), float(lambd)), self.dtype)


@converter("torch.ops.aten.log_normal", cases=[drawing("float32[n,3]")])
def log_normal(op, self, mean=1.0, std=2.0, *, generator=None):
    return op.Exp(normal_(op, self, mean, std))


@converter("torch.ops.aten.cauchy", cases=[drawing("float32[n,3]")])
def cauchy(op, self, median=0.0, sigma=1.0, *, generator=None):
    turn = op.Tan(op.Mul(op.Sub(_between(op, self), 0.5), math.pi))
    return op.cast(op.Add(op.Mul(turn, float(sigma)), float(median)), self.dtype)


@converter("torch.ops.aten.geometric", cases=[drawing("float32[n,3]", 0.3)])
def geometric(op, self, p, *, generator=None):
    tries = op.Div(op.Log(_between(op, self)), math.log1p(-p))
    return op.cast(op.Ceil(tries), self.dtype)


@converter("torch.bernoulli", cases=[drawing(lambda: torch.rand(4, 3))])
def bernoulli(op, input, p=None, *, generator=None):
    shares = input if p is None else op.cast(p, torch.float32)
    kind = shares.dtype if shares.dtype in (torch.float32, torch.float64) else torch.float32
    happens = op.Less(uniform_numbers(op, input.shape, kind), op.cast(shares, kind))
    return op.cast(happens, input.dtype)


@converter("torch.multinomial", cases=[drawing(lambda: torch.rand(2, 5), 3),
                                       drawing(lambda: torch.rand(5), 7, True)])  # fmt: skip
def multinomial(op, input, num_samples, replacement=False, *, generator=None):
    """Draw classes: the largest log weights after adding a Gumbel number to each."""
    rows = op.Log(op.cast(input, torch.float32))
    shape = list(input.shape)
    if replacement:  # each sample is drawn separately
        rows = op.Unsqueeze(rows, [-2])
        shape.insert(-1, num_samples)
    numbers = op.Clip(uniform_numbers(op, shape, torch.float32), 1e-7, 1 - 1e-7)
    scores = op.Sub(rows, op.Log(op.Neg(op.Log(numbers))))
    if replacement:
        return op.ArgMax(scores, axis=-1, keepdims=0)
    return op.TopK(scores, op.sizes([num_samples]), outputs=2)[1]


# Dropout, in training, and for some functions always.


def _dropped(op, input, p, shape):
    if p >= 1:
        return op.Mul(input, op.constant(0, input.dtype))
    kept = op.GreaterOrEqual(uniform_numbers(op, shape, torch.float32), float(p))
    return op.Where(kept, op.Mul(input, op.constant(1 / (1 - p), input.dtype)),
                    op.constant(0, input.dtype))  # fmt: skip


@converter("torch.dropout", cases=[drawing("float32[n,3]", 0.5, False),
                                   drawing("float32[n,3]", 0.5, True)])  # fmt: skip
def dropout(op, input, p=0.5, train=False):
    return _dropped(op, input, p, input.shape) if train and p else input


@converter("torch.nn.functional.dropout", cases=[case("float32[n,3]", 0.5, False)])
def dropout_of_layers(op, input, p=0.5, training=True, inplace=False):
    return NotImplemented if training or inplace else input


@converter("torch.native_dropout", cases=[case("float32[n,3]", 0.5, False)])
def native_dropout(op, input, p, train):
    if train is not False:
        return NotImplemented  # it also returns the mask
    return input, op.Expand(op.constant(True), op.sizes(input.shape))


@converter("torch.feature_dropout", cases=[drawing("float32[n,3,4]", 0.5, False),
                                           drawing("float32[n,3,4]", 0.5, True)])  # fmt: skip
def feature_dropout(op, input, p=0.5, train=False):
    if not (train and p):
        return input
    return _dropped(op, input, p, [*input.shape[:2], *[1] * (input.rank - 2)])


def _alpha_dropped(op, input, p, shape):
    """Set dropped elements to the lowest value of SELU; keep the mean and the variance."""
    low = -1.7580993408473766
    scale = 1 / math.sqrt((low * low * p + 1) * (1 - p)) if p < 1 else 0.0
    kept = op.GreaterOrEqual(uniform_numbers(op, shape, torch.float32), float(p))
    mixed = op.Where(kept, input, op.constant(low, input.dtype))
    return op.Add(op.Mul(mixed, op.constant(scale, input.dtype)),
                  op.constant(-scale * low * p, input.dtype))  # fmt: skip


@converter("torch.alpha_dropout", cases=[drawing("float32[n,3]", 0.5, True)])
def alpha_dropout(op, input, p=0.5, train=False):
    return _alpha_dropped(op, input, p, input.shape) if train and p else input


@converter("torch.feature_alpha_dropout", cases=[drawing("float32[n,3,4]", 0.5, True)])
def feature_alpha_dropout(op, input, p=0.5, train=False):
    if not (train and p):
        return input
    return _alpha_dropped(op, input, p, [*input.shape[:2], *[1] * (input.rank - 2)])
