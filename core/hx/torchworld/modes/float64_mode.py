"""Runs in float64: a mode that widens what torch functions compute with."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .quantized_kernels import QuantizedKernels

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class Float64Mode(TorchFunctionMode):
    """Mode in which every torch function computes in float64, whatever dtype its tensors have.

    A float tensor that a function meets is converted, and so is each result; weights, tensors in
    closures and constants of the code as well, without a copy of the model. A parameter is
    converted anew for each function. The copy of any other tensor stands for it until it dies, so
    that later functions read what one writes into it. Kernels of quantized tensors, which take no
    float64, are called by `kernels`; without it, they refuse their arguments.
    """

    def __init__(self, kernels: QuantizedKernels | None = None) -> None:
        super().__init__()
        self._kernels = kernels
        self._wide: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def forget(self) -> None:
        """Drop the copies. Python 3.11 crashes where a tensor dies as references to it are collected.

        They would be in a cycle with the mode, which the garbage collector may free at that moment.
        """
        self._wide.clear()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = self._widened(args), self._widened(kwargs or {})
        if self._kernels is not None and self._kernels.serves(func):
            return self._widened(self._kernels.call(func, args, kwargs))
        return self._widened(func(*args, **kwargs))

    def _widened(self, it: Any) -> Any:
        if isinstance(it, torch.Tensor):
            return self._of(it) if it.dtype in WIDER else it
        if isinstance(it, torch.dtype):
            return WIDER.get(it, it)
        if type(it) is dict:
            return {key: self._widened(value) for key, value in it.items()}
        if type(it) in (list, tuple):
            return type(it)(map(self._widened, it))
        if isinstance(it, tuple) and hasattr(it, "_fields"):
            return type(it)(*map(self._widened, it))
        return it

    def _of(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._wide.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        with torch._C.DisableTorchFunction():
            if tensor.layout is torch.strided and tensor.numel() and not _has_memory(tensor):
                raise ValueError("a tensor whose memory was given back cannot be widened")
            wide = tensor.detach().to(WIDER[tensor.dtype])
        if not isinstance(tensor, torch.nn.Parameter):
            key = id(tensor)
            held = weakref.ref(tensor, lambda _: self._wide.pop(key, None))
            self._wide[key] = (held, wide)
        return wide


def _has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has its memory: libraries that offload weights give it back."""
    return tensor.device.type == "meta" or tensor.untyped_storage().nbytes() > 0
