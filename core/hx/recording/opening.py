"""Opens a Python function of torch, so that the calls inside are seen one by one.

Such functions first ask `has_torch_function(...)`, and while the recording listens the answer is
yes, so that calling them again would come back here for ever. A copy of the function whose globals
answer no runs its body instead.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

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


# Operators whose kernel is Python: those of torch.library, mostly.

_KERNEL = re.compile(r"^CPU: registered at .*\.py:\d+", re.MULTILINE)
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


@functools.cache
def has_python_kernel(name: str) -> bool:
    return _KERNEL.search(torch._C._dispatch_dump_table(name)) is not None


def kernel(func: Any, tensors: Iterable[torch.Tensor]) -> Callable | None:
    """What runs the Python kernel of an operator, without asking the doors about the operator."""
    if not isinstance(func, torch._ops.OpOverload) or not has_python_kernel(func.name()):
        return None
    if not all(t.device.type == "cpu" for t in tensors):
        return None
    return functools.partial(func.redispatch, _CPU)


_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def composed(func: Any) -> Any:
    """The operator, if its kernel is Python that runs before any door for operators; else None."""
    return _composed(func) if isinstance(func, _OPERATORS) else None


@functools.cache
def _composed(func: Any) -> Any:
    if isinstance(func, torch._ops.OpOverloadPacket) and len(func.overloads()) == 1:
        func = getattr(func, *func.overloads())
    if not isinstance(func, torch._ops.OpOverload) or not has_python_kernel(func.name()):
        return None
    key = "CompositeImplicitAutograd"
    known = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    return func if known and not func._schema.is_mutable else None


# Operators that PyTorch itself says by others.


def decomposition(func: Any) -> Callable | None:
    """How others make up an operator that gives new tensors, and the same ones each time."""
    return _decomposition(func) if isinstance(func, _OPERATORS) else None


@functools.cache
def _decomposition(func: Any) -> Callable | None:
    if isinstance(func, torch._ops.OpOverloadPacket):
        func = getattr(func, "default", None)
    if not isinstance(func, torch._ops.OpOverload) or func._schema.is_mutable:
        return None
    aliases = any(result.alias_info is not None for result in func._schema.returns)
    if aliases or torch.Tag.nondeterministic_seeded in func.tags:
        return None
    from torch._decomp import decomposition_table  # which takes a while to import

    return decomposition_table.get(func)
