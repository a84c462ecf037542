"""Modes of PyTorch that the caller has on: the engine works without them, the model with them.

A default device (`torch.set_default_device("cuda")`, `with torch.device("meta"):`) is such a mode.
The engine's own tensors must not land there, and the model's must.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._C import (
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.utils import _device
from torch.utils._device import DeviceContext

from ...cleanup import Reversible

T = TypeVar("T")
_local = threading.local()


def functions() -> list[Any]:
    """The modes of this thread that see functions, the outermost last."""
    return [_get_function_stack_at(i) for i in range(_len_torch_function_stack())]


def set_functions(wanted: list[Any]) -> None:
    if functions() != wanted:
        while _len_torch_function_stack():
            _pop_torch_function_stack()
        for mode in wanted:
            _push_on_torch_function_stack(mode)


def default_device() -> tuple[Any, Any]:
    """Return what `torch.set_default_device` sets beside its mode, to be restored."""
    return getattr(_known(), "device_context", None), _device.CURRENT_DEVICE


def set_default_device(was: tuple[Any, Any]) -> None:
    _known().device_context, _device.CURRENT_DEVICE = was


def _known() -> Any:
    return torch._GLOBAL_DEVICE_CONTEXT  # type: ignore[attr-defined]  # PyTorch's own, no stub


class apart(Reversible):
    """`with apart():` sets the caller's default device aside."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._outer = getattr(_local, "devices", [])

    def _set_up(self) -> None:
        self._before = functions()
        _local.devices = [m for m in self._before if isinstance(m, DeviceContext)]
        set_functions([m for m in self._before if not isinstance(m, DeviceContext)])

    def _undo(self) -> None:
        if self._before is not None:
            set_functions(self._before)
            _local.devices = self._outer


def give_the_model() -> None:
    """Put the caller's default device on top, where the recording sees its effect on a call."""
    for mode in getattr(_local, "devices", ()):
        _push_on_torch_function_stack(mode)


def theirs(call: Callable[[], T]) -> T:
    """The result of the model when it is run by itself."""
    before = functions()
    try:
        give_the_model()
        return call()
    finally:
        set_functions(before)
