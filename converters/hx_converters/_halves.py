"""Half floats: PyTorch's kernels compute in float32 and round once, at the end.

A converter that writes one kernel as several nodes would round after each. `rounded_once` lets it
work in float32 for any half dtype. PyTorch's products and quotients do not round a Python number
either: `number_unrounded` lets them work in float32 if float16 cannot hold that number.
"""

from __future__ import annotations

import functools
import math

from hx.lazy import torch

from ._common import is_value


def _half(dtype):
    return dtype in (torch.float16, torch.bfloat16)


class _Widened:
    """An `op` that presents its half result as float32."""

    def __init__(self, op):
        self._op = op

    def __getattr__(self, name):
        return getattr(self._op, name)

    def __call__(self, *args, **kwargs):
        return self._op(*args, **kwargs)

    @property
    def result(self):
        return _widened(self._op.result)


class _Spec:
    def __init__(self, spec):
        self.dtype, self.shape, self.rank = torch.float32, spec.shape, spec.rank


def _widened(spec):
    if isinstance(spec, tuple):
        return tuple(map(_widened, spec))
    return _Spec(spec) if _half(getattr(spec, "dtype", None)) else spec


def _cast_all(op, x, wanted, dtype):
    if isinstance(x, (list, tuple)):
        return type(x)([_cast_all(op, v, wanted, dtype) for v in x])
    return op.cast(x, dtype) if is_value(x) and wanted(x.dtype) else x


def _first_half(x):
    if isinstance(x, (list, tuple)):
        return next(filter(None, map(_first_half, x)), None)
    return x.dtype if is_value(x) and _half(x.dtype) else None


def rounded_once(convert):
    @functools.wraps(convert)
    def either(op, *args, **kwargs):
        half = _first_half([*args, *kwargs.values()])
        if half is None:
            return convert(op, *args, **kwargs)
        args = [_cast_all(op, x, _half, torch.float32) for x in args]
        kwargs = {k: _cast_all(op, x, _half, torch.float32) for k, x in kwargs.items()}
        y = convert(_Widened(op), *args, **kwargs)
        if y is NotImplemented:
            return y
        result = op.result
        if isinstance(y, (list, tuple)):
            return tuple(op.cast(v, r.dtype) for v, r in zip(y, result))
        # One of several results gets the half dtype of the inputs.
        return op.cast(y, half if isinstance(result, tuple) else result.dtype)

    return either


def number_unrounded(convert):
    """Extend a converter of two operands to a second one that is a number beyond float16's range.

    bfloat16 needs nothing: it has the range of float32.
    """
    wide = rounded_once(convert)

    @functools.wraps(convert)
    def either(op, input, other, **kwargs):
        half = getattr(op.result, "dtype", None) == torch.float16
        return (wide if half and _is_beyond(op, other) else convert)(op, input, other, **kwargs)

    return either


def _is_beyond(op, x):
    """Return whether a number may overflow, vanish or lose digits in float16."""
    if is_value(x):
        if x.rank or x.dtype == torch.float16:
            return False
        contents = op.contents(x)
        x = None if contents is None else contents.item()
    if type(x) not in (int, float, bool):
        return True  # known at run time
    ends = torch.finfo(torch.float16)
    return 0 < abs(x) < ends.tiny or ends.max < abs(x) < math.inf
