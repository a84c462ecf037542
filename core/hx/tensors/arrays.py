"""Arrays of NumPy that say which tensor holds the same: what is done with them is done with it, too.

    torch.from_numpy(np.triu(np.ones((n, n)), k=1).astype("uint8"))     counts.numpy().cumsum(0)

An operation that is known here is done by NumPy and, where the model's calls are seen, by torch. If
both agree in every number and in the dtype, the array is from then on torch's. All else is NumPy's
alone, as it was made in the recording.
"""

from __future__ import annotations

from builtins import len, range  # their own: `world` hooks those of the model
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..recording import known
from . import accounts, memory

if TYPE_CHECKING:
    from ..recording.recording import Recording

_UFUNCS: dict[Any, Callable] = {
    np.add: torch.add,
    np.subtract: torch.sub,
    np.multiply: torch.mul,
    np.equal: torch.eq,
    np.not_equal: torch.ne,
    np.less: torch.lt,
    np.less_equal: torch.le,
    np.greater: torch.gt,
    np.greater_equal: torch.ge,
    np.logical_not: torch.logical_not,
    np.true_divide: torch.true_divide,
    np.negative: torch.neg,
    np.absolute: torch.abs,
    np.maximum: lambda a, b: _larger(a, b),
    np.minimum: lambda a, b: -_larger(-a, -b),
    np.sqrt: torch.sqrt,
    np.floor: torch.floor,
    np.ceil: torch.ceil,
}
_FUNCTIONS: dict[Any, Callable] = {
    np.triu: lambda m, k=0: torch.triu(m, k),
    np.tril: lambda m, k=0: torch.tril(m, k),
    np.cumsum: lambda a, axis=None: torch.cumsum(a, _axis(a, axis)),
    np.clip: lambda a, a_min=None, a_max=None: torch.clamp(a, a_min, a_max),
    np.round: lambda a, decimals=0: torch.round(a, decimals=decimals),
}


def _larger(a: Any, b: Any) -> torch.Tensor:
    return torch.clamp(a, min=b) if isinstance(a, torch.Tensor) else torch.clamp(b, min=a)


def _axis(x: torch.Tensor, axis: int | None) -> int:
    if axis is None and x.dim() != 1:
        raise TypeError("of all that is in it, one after the other")
    return axis or 0


class Followed(np.ndarray):
    """An array over the memory of a tensor that a recording follows."""

    held: tuple[Recording, torch.Tensor] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
        if method == "__call__" and not kwargs and ufunc in _UFUNCS:
            return _both(result, _UFUNCS[ufunc], inputs, {})
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        if func in _FUNCTIONS:
            return _both(_plain(result), _FUNCTIONS[func], args, kwargs)
        return result

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        result = _plain(self).cumsum(axis, dtype, _plain(out))
        if dtype is not None or out is not None:
            return result
        return _both(result, _FUNCTIONS[np.cumsum], (self, axis), {})

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        result = _plain(self).astype(dtype, *args, **kwargs)
        kind = np.dtype(dtype).name
        return _both(result, lambda x: x.to(getattr(torch, kind)), (self,), {})

    def __getitem__(self, index: Any) -> Any:
        result, tensor = _plain(self)[index], _behind(self)
        if tensor is None:
            return result
        if isinstance(result, np.integer) and type(index) is int:
            # A number that remembers; one by one, many would be a graph of their own.
            return tensor[index].item() if self.size <= known.MOST else result
        return _both(result, lambda x: x[index], (self,), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = _behind(self)
        if tensor is not None and type(value) in (bool, int, float):
            try:
                tensor[index] = value  # the same memory
                return
            except (TypeError, ValueError, RuntimeError, IndexError):
                pass  # torch does not say it in this way
        _plain(self)[index] = value

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Followed) else x


def _behind(x: Any) -> torch.Tensor | None:
    """The tensor whose memory it is, while that is followed."""
    from ..recording.recording import current  # which knows of accounts

    if not isinstance(x, Followed) or x.held is None:
        return None
    recording, tensor = x.held
    return tensor if current() is recording and not recording.busy else None


def follow(recording: Recording, tensor: torch.Tensor, array: np.ndarray) -> np.ndarray:
    """The array, which is over the memory of the tensor, as one that says so."""
    found = array.view(Followed)
    found.held = recording, tensor
    return found


def made(recording: Recording, make: Callable, maker: Callable) -> Any:
    """What NumPy makes of sizes, made by torch as well."""
    return _agreed(recording, make(), maker)


def _both(result: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
    """NumPy's result, and what torch makes of the tensors behind the arguments."""
    given = [_behind(x) if isinstance(x, np.ndarray) else x for x in args]
    recording = next((x.held[0] for x in args if isinstance(x, Followed) and x.held), None)
    if recording is None or any(x is None for x in given):
        return result
    return _agreed(recording, result, lambda: function(*given, **kwargs))


def _agreed(recording: Recording, result: Any, compute: Callable) -> Any:
    try:
        tensor = compute()
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
        return result  # torch does not say it in this way
    if not isinstance(tensor, torch.Tensor) or not isinstance(result, np.ndarray):
        return result
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        same = memory.as_numpy(tensor.detach())
        if same.dtype != result.dtype or not np.array_equal(same, result):
            return result
        busy, recording.busy = recording.busy, True
        try:
            accounts.hand_to_numpy(recording, tensor)
        finally:
            recording.busy = busy
        return follow(recording, tensor, tensor.detach().numpy())
