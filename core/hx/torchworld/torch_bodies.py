"""Bodies of Python functions of torch, opened so that the calls inside are seen one by one.

Such a function first asks `has_torch_function(...)`. While the recording listens the answer is yes,
so that calling it again would come back here for ever. A copy of the function whose globals answer
no runs its body instead.
"""

from __future__ import annotations

import functools
import gc
import operator
import os
import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from .spelling import reachable_functions

_ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _no(*args: Any) -> bool:
    return False


def can_open(func: Callable) -> bool:
    return isinstance(func, types.FunctionType) and (func.__module__ or "").startswith("torch")


def opened(func: Callable) -> Callable:
    known = _copies.get(func)
    if known is None or not known.holds():
        assert isinstance(func, types.FunctionType)
        known = _copies[func] = _Copy(func)
    return known.function


class _Copy:
    """Copy of a function that consults no overrides, valid while its globals stay the same."""

    __slots__ = ("_names", "_read", "_space", "function")

    def __init__(self, func: types.FunctionType) -> None:
        self.function = func
        self._space = func.__globals__
        own = {name: _no for name in _ASKS if name in self._space}
        self._names = tuple(
            reachable_functions.names(func.__code__) & self._space.keys() if own else ()
        )
        self._read = [self._space.get(name) for name in self._names]
        if own:
            self.function = types.FunctionType(
                func.__code__, {**self._space, **own}, func.__name__,
                func.__defaults__, func.__closure__,
            )  # fmt: skip
            self.function.__kwdefaults__ = func.__kwdefaults__

    def holds(self) -> bool:
        return all(map(operator.is_, map(self._space.get, self._names), self._read))


_copies: dict[Callable, _Copy] = {}


def handed(func: Any) -> Any:
    """The function that arrived at a mode: PyTorch's own pass a name, which may hold another.

    After `F.relu = mine`, where mine calls the original relu, that one hands over `mine`, and
    running it would run it twice.
    """
    if type(func) in _COMPILED or _is_of_torch(func):
        return func
    frame: Any = sys._getframe(1)
    for _ in range(3):
        if frame is None or frame.f_code is _HANDS:
            break
        frame = frame.f_back
    caller = frame.f_back if frame is not None and frame.f_code is _HANDS else None
    if caller is None or not caller.f_code.co_filename.startswith(_TORCH):
        return func
    return _function_of(caller) or func


_COMPILED = frozenset(
    {types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
     types.MethodWrapperType, torch._ops.OpOverload, torch._ops.OpOverloadPacket}
)  # fmt: skip
_HANDS = torch.overrides.handle_torch_function.__code__
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


def _is_of_torch(func: Any) -> bool:
    code = getattr(func, "__code__", None)
    if isinstance(code, types.CodeType):
        return code.co_filename.startswith(_TORCH)
    return (type(func).__module__ or "").partition(".")[0] == "torch"


def _function_of(frame: types.FrameType) -> types.FunctionType | None:
    """The function that runs in a frame of PyTorch's."""
    code = frame.f_code
    known = _running.get(id(code))
    if known is None:
        # Copies of it, with other globals, have the same code.
        found = (f for f in gc.get_referrers(code) if type(f) is types.FunctionType)
        own = (f for f in found if f.__code__ is code and f.__globals__ is frame.f_globals)
        known = next(own, None)
        if (
            known is not None
        ):  # which keeps its code: another one could get the identity of a lost one
            _running[id(code)] = known
    return known


# PyTorch's own functions, by the identity of their codes, which they keep alive.
_running: dict[int, types.FunctionType] = {}


# Operators whose kernel is Python: those of torch.library, mostly.

_KERNEL = re.compile(r"^CPU: registered at .*\.py:\d+", re.MULTILINE)
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


@functools.cache
def has_python_kernel(name: str) -> bool:
    return _KERNEL.search(torch._C._dispatch_dump_table(name)) is not None


def kernel(func: Any, tensors: Iterable[torch.Tensor]) -> Callable | None:
    """Return a function that runs an operator's Python kernel without going through the doors."""
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
    """The decomposition of an operator that returns new tensors, and the same ones each time."""
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
