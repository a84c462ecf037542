"""NumPy's functions in terms of torch: the same numbers in the same shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

UFUNCS: dict[Any, Callable] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.fmod: torch.fmod,
    np.power: operator.pow,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.logical_not: torch.logical_not,
    np.logical_and: torch.logical_and,
    np.logical_or: torch.logical_or,
    np.logical_xor: torch.logical_xor,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.invert: operator.invert,
    np.negative: torch.neg,
    np.absolute: torch.abs,
    np.matmul: torch.matmul,
    np.square: torch.square,
    np.sign: torch.sign,
    np.reciprocal: torch.reciprocal,
    np.maximum: lambda a, b: _larger(a, b),
    np.minimum: lambda a, b: -_larger(-a, -b),
    np.sqrt: torch.sqrt,
    np.floor: torch.floor,
    np.ceil: torch.ceil,
    np.trunc: torch.trunc,
    np.rint: torch.round,
    np.exp: torch.exp,
    np.exp2: torch.exp2,
    np.expm1: torch.expm1,
    np.log: torch.log,
    np.log2: torch.log2,
    np.log10: torch.log10,
    np.log1p: torch.log1p,
    np.arctan: torch.atan,
    np.arctan2: torch.atan2,
    np.sin: torch.sin,
    np.cos: torch.cos,
    np.tan: torch.tan,
    np.tanh: torch.tanh,
}
# Functions whose last digits differ between libraries; methods by name.
ROUNDED = {
    np.sqrt,  # PyTorch's is off by the last digit on some processors
    np.exp,
    np.exp2,
    np.expm1,
    np.log,
    np.log2,
    np.log10,
    np.log1p,
    np.arctan,
    np.arctan2,
    np.sin,
    np.cos,
    np.tan,
    np.tanh,
    np.power,
    np.matmul,
    np.dot,
    np.sum,
    np.mean,
    np.interp,
    "sum",
    "mean",
}


def _larger(a: Any, b: Any) -> torch.Tensor:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.maximum(a, b)
    return torch.clamp(a, min=b) if isinstance(a, torch.Tensor) else torch.clamp(b, min=a)


def _cumsum(a: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    if axis is None and a.dim() != 1:
        raise TypeError("of all that is in it, one after the other")
    return torch.cumsum(a, axis or 0)


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() > 2 or b.dim() > 2:
        raise TypeError("another axis of the second than a product of matrices takes")
    return a @ b


def _over(form: Callable) -> Callable:
    """A function that reduces all numbers, or those along an axis, to one."""

    def reduced(a: torch.Tensor, axis: Any = None, *, keepdims: bool = False) -> torch.Tensor:
        return form(a, tuple(range(a.dim())) if axis is None else axis, keepdims)

    return reduced


def _mean(a: torch.Tensor, axis: Any, keepdims: bool) -> torch.Tensor:
    return (a if a.is_floating_point() else a.double()).mean(axis, keepdims)


def _along(form: Callable) -> Callable:
    """A function along one axis, or over all elements in order."""

    def found(a: torch.Tensor, axis: int | None = None) -> Any:
        return form(a.reshape(-1), 0) if axis is None else form(a, axis)

    return found


def _sorted(a: torch.Tensor, axis: int = -1) -> torch.Tensor:
    return torch.sort(a, dim=axis, stable=True).values


def _order(a: torch.Tensor, axis: int = -1) -> torch.Tensor:
    return torch.argsort(a, dim=axis, stable=True)


def _flipped(m: torch.Tensor, axis: Any = None) -> torch.Tensor:
    axes = range(m.dim()) if axis is None else [axis] if isinstance(axis, int) else axis
    return torch.flip(m, [*axes])


def _side_by_side(arrays: Any) -> torch.Tensor:
    return torch.cat([*arrays], 0 if arrays[0].dim() == 1 else 1)


def _reshaped(a: torch.Tensor, *shape: Any) -> torch.Tensor:
    return a.reshape(*shape)


def _transposed(a: torch.Tensor, *axes: Any) -> torch.Tensor:
    axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return a.permute(*(axes or range(a.dim() - 1, -1, -1)))


def _squeezed(a: torch.Tensor, axis: Any = None) -> torch.Tensor:
    return a.squeeze() if axis is None else a.squeeze(axis)


def _repeated(a: torch.Tensor, repeats: Any, axis: int | None = None) -> torch.Tensor:
    return torch.repeat_interleave(a, repeats, dim=axis)


def _flat(a: torch.Tensor) -> torch.Tensor:
    return a.reshape(-1).clone()


def _meshgrid(
    *given: torch.Tensor, indexing: str = "xy", sparse: bool = False
) -> list[torch.Tensor]:
    grids = torch.meshgrid(*given, indexing=indexing)
    if not sparse:
        return [grid.clone() for grid in grids]
    turn = {0: 1, 1: 0} if indexing == "xy" and len(given) > 1 else {}
    shapes = [[1] * len(given) for _ in given]
    for axis, row in enumerate(given):
        shapes[axis][turn.get(axis, axis)] = row.shape[0]
    return [row.reshape(shape) for row, shape in zip(given, shapes)]


def _padded(
    a: torch.Tensor, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> torch.Tensor:
    pairs = [pad_width] if isinstance(pad_width, int) else [*pad_width]
    pairs = [each if isinstance(each, (list, tuple)) else None for each in pairs]
    if None in pairs:  # one pair for all axes, or one number for both of its sides
        both = [pad_width, pad_width] if isinstance(pad_width, int) else [*pad_width] * 2
        pairs = [both[:2]]
    pairs = pairs * a.dim() if len(pairs) == 1 else pairs
    widths = [n for pair in reversed(pairs) for n in pair]
    if mode == "constant":
        return torch.nn.functional.pad(a, widths, value=constant_values)
    if a.dim() != 1:
        raise TypeError("torch pads the last axes alone so")
    padded = torch.nn.functional.pad(a.double()[None], widths, mode=_PADS[mode])
    return padded[0].to(a.dtype)


def _interpolated(
    x: torch.Tensor, xp: Any, fp: Any, left: float | None = None, right: float | None = None
) -> torch.Tensor:
    places, values = (torch.as_tensor(each, dtype=torch.float64) for each in (xp, fp))
    before = torch.searchsorted(places, x, right=True).sub(1).clamp(0, len(places) - 2)
    start, first = places[before], values[before]
    slope = (values[before + 1] - first) / (places[before + 1] - start)
    between = slope * (x - start) + first
    below, above = values[0] if left is None else left, values[-1] if right is None else right
    return torch.where(x < places[0], below, torch.where(x > places[-1], above, between))


_PADS = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}

FUNCTIONS: dict[Any, Callable] = {
    np.pad: _padded,
    np.triu: lambda m, k=0: torch.triu(m, k),
    np.tril: lambda m, k=0: torch.tril(m, k),
    np.cumsum: _cumsum,
    np.clip: lambda a, a_min=None, a_max=None: torch.clamp(a, a_min, a_max),
    np.round: lambda a, decimals=0: torch.round(a, decimals=decimals),
    np.stack: lambda arrays, axis=0: torch.stack([*arrays], axis),
    np.concatenate: lambda arrays, axis=0: torch.cat([*map(torch.as_tensor, arrays)], axis),
    np.column_stack: lambda tup: torch.column_stack([*tup]),
    np.dot: _dot,
    np.meshgrid: _meshgrid,
    np.reshape: _reshaped,
    np.transpose: lambda a, axes=(): _transposed(a, *axes),
    np.swapaxes: torch.transpose,
    np.squeeze: _squeezed,
    np.expand_dims: lambda a, axis: a.unsqueeze(axis),
    np.repeat: _repeated,
    np.tile: lambda a, reps: torch.tile(a, [reps] if isinstance(reps, int) else [*reps]),
    np.broadcast_to: lambda array, shape: torch.broadcast_to(array, [*shape]).clone(),
    np.outer: torch.outer,
    np.einsum: torch.einsum,
    np.where: torch.where,
    np.sum: _over(torch.sum),
    np.mean: _over(_mean),
    np.max: _over(torch.amax),
    np.min: _over(torch.amin),
    np.any: _over(torch.any),
    np.all: _over(torch.all),
    np.argmax: _along(torch.argmax),
    np.argmin: _along(torch.argmin),
    np.sort: _sorted,
    np.argsort: _order,
    np.flip: _flipped,
    np.diff: lambda a, n=1, axis=-1: torch.diff(a, n, axis),
    np.roll: lambda a, shift, axis=None: torch.roll(a, shift, axis),
    np.vstack: lambda tup: torch.vstack([*tup]),
    np.hstack: _side_by_side,
    np.nonzero: lambda a: torch.nonzero(a, as_tuple=True),
    np.flatnonzero: lambda a: torch.nonzero(a.reshape(-1)).reshape(-1),
    np.argwhere: torch.nonzero,
    np.count_nonzero: torch.count_nonzero,
    np.isin: torch.isin,
    np.interp: _interpolated,
    np.searchsorted: lambda a, v, side="left": torch.searchsorted(a, v, side=side),
    np.zeros_like: torch.zeros_like,
    np.ones_like: torch.ones_like,
}
METHODS: dict[str, Callable] = {
    "sum": _over(torch.sum),
    "mean": _over(_mean),
    "max": _over(torch.amax),
    "min": _over(torch.amin),
    "any": _over(torch.any),
    "all": _over(torch.all),
    "argmax": _along(torch.argmax),
    "argmin": _along(torch.argmin),
    "argsort": _order,
    "cumsum": _cumsum,
    "reshape": _reshaped,
    "transpose": _transposed,
    "swapaxes": torch.transpose,
    "squeeze": _squeezed,
    "flatten": _flat,
    "ravel": lambda a: a.reshape(-1),
    "repeat": _repeated,
    "copy": torch.clone,
    "round": lambda a, decimals=0: torch.round(a, decimals=decimals),
    "dot": _dot,
    "clip": lambda a, a_min=None, a_max=None: torch.clamp(a, a_min, a_max),
    "nonzero": lambda a: torch.nonzero(a, as_tuple=True),
}
