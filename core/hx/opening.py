"""Opens a Python function of torch, so that the calls inside are seen one by one.

Such functions first ask `has_torch_function(...)`, and while the recording listens the answer is
yes, so that calling them again would come back here for ever. A copy of the function whose globals
answer no runs its body instead.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

_ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _no(*args: Any) -> bool:
    return False


def can_open(func: Callable) -> bool:
    return isinstance(func, types.FunctionType) and (func.__module__ or "").startswith("torch")


def opened(func: Callable) -> Callable:
    copy = _copies.get(func)
    if copy is None:
        assert isinstance(func, types.FunctionType)
        own = {name: _no for name in _ASKS if name in func.__globals__}
        if own:
            copy = types.FunctionType(
                func.__code__, {**func.__globals__, **own}, func.__name__,
                func.__defaults__, func.__closure__,
            )  # fmt: skip
            copy.__kwdefaults__ = func.__kwdefaults__
        else:
            copy = func
        _copies[func] = copy
    return copy


_copies: dict[Callable, Callable] = {}
