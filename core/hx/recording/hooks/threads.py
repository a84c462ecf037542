"""Other threads while the model is recorded: the recording sees its own thread only.

A thread that the model starts, and a task that it gives to a pool, are watched: the line where they
use a tensor of the recording is noted. Tensors that they make are unknown wherever they are used; a
number that they read would be taken for a constant.
"""

from __future__ import annotations

import _thread
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _pop_torch_function_stack, _push_on_torch_function_stack
from torch.overrides import TorchFunctionMode

from ...errors import Where
from ...ir.value import Constant
from ...torch_facts import FIXED
from ...torchworld import torch_bodies
from ...torchworld.modes import modes
from ..calls.arguments import tensors_in
from ..origins import is_machinery
from ..reads.note_escapes import note_escape
from ..recording import Recording


class _Watch(TorchFunctionMode):
    """A watcher of the functions of PyTorch that one thread calls; it changes none."""

    def __init__(self, recording: Recording, started: Where) -> None:
        TorchFunctionMode.__init__(self)
        self.recording, self._started = recording, started

    def __torch_function__(self, func, types, args=(), kwargs=None):
        func, kwargs = torch_bodies.handed(func), kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name not in FIXED and any(self._follows(t) for _, t in tensors_in((args, kwargs))):
            note_escape(
                self.recording,
                "thread",
                f"{name} is asked in another thread, which a recording does not see: what the model "
                "does with the answer stays as it was",
                self._where(),
            )
        return func(*args, **kwargs)

    def _follows(self, tensor: torch.Tensor) -> bool:
        entry = self.recording.memory.live.find(tensor)
        return entry is not None and not isinstance(entry.value, Constant)

    def _where(self) -> Where:
        frame: Any = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if frame.f_globals.get("__name__") in _RUNNERS:
                break
            if not is_machinery(code):
                return Where(code.co_filename, frame.f_lineno, "", code.co_name)
            frame = frame.f_back
        return self._started


_RUNNERS = ("threading", "concurrent.futures.thread", "multiprocessing.pool")


def places(recording: Recording) -> list[tuple[Any, str, Callable]]:
    """The places where threads are started: owner, name, and the maker of the wrapper."""

    def wrapper(original: Callable) -> Callable:
        def start(function: Callable, *args: Any, **kwargs: Any) -> Any:
            return original(_watched(recording, function), *args, **kwargs)

        return start

    names = ("_start_new_thread", "_start_joinable_thread")  # the second from 3.13 on
    found = [(threading, name, wrapper) for name in names if hasattr(threading, name)]
    return [*found, (_thread, "start_new_thread", wrapper)]


def hooks(recording: Recording) -> dict[Any, Callable]:
    """Hook the pools that may have their threads already."""

    def hook(original: Callable, args: tuple, kwargs: dict) -> Any:
        pool, function, *rest = args
        if pools is None or not isinstance(pool, pools.Pool) or isinstance(pool, pools.ThreadPool):
            function = _watched(recording, function)  # in a process it has copies of all it gets
        return original(pool, function, *rest, **kwargs)

    found: list[Any] = []
    futures = sys.modules.get("concurrent.futures.thread")
    if futures is not None:
        found.append(futures.ThreadPoolExecutor.submit)
    pools: Any = sys.modules.get("multiprocessing.pool")
    if pools is not None:
        kind = pools.Pool
        found += [kind.apply_async, kind._map_async, kind.imap, kind.imap_unordered]
    return dict.fromkeys(found, hook)


def _watched(recording: Recording, function: Callable) -> Callable:
    if recording.running.busy:
        return function  # a thread of ours, or of a converter
    watch = _Watch(recording, recording.position.where())

    @functools.wraps(function, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(m, _Watch) and m.recording is recording for m in modes.functions()):
            return function(*args, **kwargs)
        _push_on_torch_function_stack(watch)
        try:
            return function(*args, **kwargs)
        finally:
            _pop_torch_function_stack()

    return run
