"""Sets the world up for one recording: every hook in place, all taken away again, whatever happens.

Doors, module scopes, custom autograd functions, the builtins that carry sizes, and what model
libraries ask before they choose an export-friendly path.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import dims, patching
from .known import _shape_of
from .recording import FunctionDoor, OperatorDoor, Recording, _local


_quiet = threading.Lock()
_quieted: list[tuple[int, int, int]] = []  # the thresholds before, once for each export that runs


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """No full garbage collections meanwhile: they would look at every object of every library."""
    with _quiet:
        now = gc.get_threshold()
        _quieted.append(_quieted[0] if _quieted else now)
        gc.set_threshold(now[0], now[1], 1 << 30)
    try:
        yield
    finally:
        with _quiet:
            before = _quieted.pop()
            if not _quieted:
                gc.set_threshold(*before)


@contextlib.contextmanager
def recorded(recording: Recording, model: Any, watch: Callable | None = None) -> Iterator[None]:
    """For the time of the block, what this thread does is recorded."""
    with contextlib.ExitStack() as stack:
        before = getattr(_local, "recording", None)
        _local.recording = recording
        stack.callback(setattr, _local, "recording", before)
        listening = dims.listen(recording._size_left)
        stack.callback(dims.listen, listening)
        stack.enter_context(torch.no_grad())
        stack.enter_context(_eager())
        stack.enter_context(patching.hooks(_hooks(recording, model, watch)))
        stack.enter_context(patching.attributes(_carriers(recording)))
        stack.enter_context(OperatorDoor(recording))
        stack.enter_context(FunctionDoor(recording))
        yield


def _hooks(recording: Recording, model: Any, watch: Callable | None) -> dict:
    hooks: dict[Callable, Callable] = {}
    for function, key in recording.choices.functions.items():
        hooks[function] = _foreign(recording, key)
    hooks[torch.nn.Module._call_impl] = _scopes(recording, model, watch)
    for asked in (torch.compiler.is_exporting, torch.onnx.is_in_onnx_export, torch.jit.is_tracing):
        hooks[asked] = _yes(recording)
    return hooks


def _foreign(recording: Recording, key: Any) -> Callable:
    def hook(original, args, kwargs):
        return recording.foreign(key, original, args, kwargs)

    return hook


def _yes(recording: Recording) -> Callable:
    def hook(original, args, kwargs):
        return True

    return hook


def _scopes(recording: Recording, model: Any, watch: Callable | None) -> Callable:
    """Says which module is running."""
    paths: dict[int, tuple[str, str]] = {}
    if isinstance(model, torch.nn.Module):
        for path, module in model.named_modules():
            paths[id(module)] = (path, type(module).__name__)
    scopes = recording.scopes

    def hook(original, args, kwargs):
        module = args[0]
        known = paths.get(id(module))
        if known is None:
            known = (scopes[-1][0] if scopes else "", type(module).__name__)
        scopes.append(known)
        try:
            result = original(*args, **kwargs)
        finally:
            scopes.pop()
        if watch is not None and not recording.busy:
            recording.busy = True
            try:
                watch(known[0], module, result)
            finally:
                recording.busy = False
        return result

    return hook


@contextlib.contextmanager
def _eager() -> Iterator[None]:
    """What torch.compile compiled runs as it was written."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _carriers(recording: Recording) -> list[tuple[Any, str, Callable]]:
    """Builtins that would turn a size into a plain number, in a form that keeps it."""

    def of_len(original):
        def length(x, /):
            if isinstance(x, torch.Tensor) and not recording.busy:
                sizes = _shape_of(recording, x)
                if sizes:
                    return sizes[0]
            return original(x)

        return length

    def of_pick(combine):
        def wrap(original):
            def picked(*args, **kwargs):
                if not kwargs:
                    items: Any = args if len(args) > 1 else None
                    if items is None and isinstance(args[0], (tuple, list)):
                        items = args[0]
                    if (
                        items
                        and any(map(dims.is_dynamic, items))
                        and all(isinstance(n, (int, float)) for n in items)
                    ):
                        result = items[0]
                        for n in items[1:]:
                            result = combine(result, n)
                        return result
                return original(*args, **kwargs)

            return picked

        return wrap

    def of_sqrt(original):
        def sqrt(x, /):
            return x**0.5 if dims.is_dynamic(x) else original(x)

        return sqrt

    return [
        (builtins, "len", of_len),
        (builtins, "min", of_pick(dims.smaller)),
        (builtins, "max", of_pick(dims.larger)),
        (math, "sqrt", of_sqrt),
    ]
