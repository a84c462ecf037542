"""Sets the world up for one recording: every hook in place, all taken away again, whatever happens.

Doors, module scopes, custom autograd functions, the builtins that carry sizes, and what model
libraries ask before they choose an export-friendly path.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack, _len_torch_function_stack
from torch._C import _pop_torch_dispatch_stack as pop_operators
from torch._C import _pop_torch_function_stack as pop_functions
from torch._C import _push_on_torch_dispatch_stack as push_operators
from torch._C import _push_on_torch_function_stack as push_functions

from ..hooks import stage
from ..recording import (
    callables,
    copying,
    fused,
    heard,
    higher,
    picked,
    seeds,
    threads,
    written_code,
)
from ..recording.doors import FunctionDoor, OperatorDoor
from ..recording.recording import Recording, _local, current
from ..sizes import dims, leftover
from ..sizes.leaving import listen, listening
from ..surely import Undone
from . import caches, carriers, imports, modes, patching, respelling

_C: Any = torch._C  # its stub leaves out some of what is used here


class recorded(Undone):
    """`with recorded(recording):` records what this thread does in the block."""

    def __init__(self, recording: Recording, watch: Callable | None = None) -> None:
        self._recording, self._watch = recording, watch
        self._steps: list[Callable[[], Any]] = []
        # Before 2.10, what PyTorch takes off its stack has to be held by somebody else, too.
        self._doors = recording.doors = OperatorDoor(recording), FunctionDoor(recording)

    def _set_up(self) -> None:
        recording, later = self._recording, self._steps.append
        later(functools.partial(setattr, _local, "recording", current()))
        later(functools.partial(listen, listening()))
        later(functools.partial(leftover.know, leftover.current()))
        later(functools.partial(torch._C._set_grad_enabled, torch.is_grad_enabled()))
        later(stage.as_now())
        later(_modes_as_now())
        hooked = patching.hooks(_hooks(recording, self._watch))
        # Of several that speak for one function, the last does.
        rooms = caches, carriers, callables, seeds, threads
        stored = patching.attributes([p for room in rooms for p in room.places(recording)])
        respelled = patching.hooks(respelling.hooks(recording), beneath=True)
        for patches in (hooked, stored, respelled):
            later(functools.partial(patches.__exit__, None, None, None))
        finder = imports.Finder()
        later(finder.take_back)
        finder.put()
        _local.recording = recording
        listen(recording.size_left)
        leftover.know(recording.questions.left_over)
        torch._C._set_grad_enabled(False)
        hooked.__enter__()
        stored.__enter__()
        respelled.__enter__()
        if _C._dispatch_tls_is_dispatch_key_excluded(_C.DispatchKey.Python):
            # An export within a call that a converter speaks for: there, operators are not seen.
            seen = _C._SetExcludeDispatchKeyGuard(_C.DispatchKey.Python, False)
            seen.__enter__()
            later(functools.partial(seen.__exit__, None, None, None))
        # Not through their __enter__, which sets flags that all threads share.
        push_operators(self._doors[0])
        push_functions(self._doors[1])
        stage.lift()  # what a user's rewrite makes of a function is a part of the model
        modes.give_the_model()
        _C._set_torch_function_state(_C._TorchFunctionState.ENABLED)

    def _undo(self) -> None:
        failed = None
        for step in reversed(self._steps):
            try:
                step()
            except Exception as e:  # the others still have to be undone
                failed = e
        self._steps.clear()
        if failed is not None:
            raise failed


def _modes_as_now() -> Callable[[], None]:
    """What takes away the modes that were pushed since, by whatever way the block is left."""
    functions, operators = _len_torch_function_stack(), _len_torch_dispatch_stack()
    state = _C._get_torch_function_state()

    def back() -> None:
        while _len_torch_function_stack() > functions:
            pop_functions()
        while _len_torch_dispatch_stack() > operators:
            pop_operators(None)
        _C._set_torch_function_state(state)

    return back


class aside:
    """`with aside():` an export inside of a recorded forward is no part of that recording."""

    def __init__(self) -> None:
        self._outer = current()
        self._was = self._outer is not None and self._outer.busy

    def __enter__(self) -> None:
        if self._outer is not None:
            self._outer.busy = True

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._outer is not None:
            self._outer.busy = self._was


def _hooks(recording: Recording, watch: Callable | None) -> dict:
    hooks: dict[Any, Callable] = {
        **higher.hooks(recording),
        **copying.hooks(recording),
        **fused.hooks(recording),
        **picked.hooks(recording),
        **callables.hooks(recording),
        **written_code.hooks(recording),
        **threads.hooks(recording),
    }
    hooks[torch.nn.Module._call_impl] = _scopes(recording, watch)
    for function, question in heard.questions().items():
        hooks[function] = _answers(recording, question)
    for sets in (torch.random.manual_seed, torch.random.seed, torch.random.set_rng_state):
        hooks[sets] = _draws(recording, sets is torch.random.manual_seed)
    hooks[torch.jit.script] = _as_written
    hooks[torch.sym_int] = _whole
    # What torch.compile compiled runs as it was written. Its own switch is for all threads.
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None:
        hooks[dynamo._callback_from_stance] = lambda original, args, kwargs: None
    return hooks


def _answers(recording: Recording, question: str) -> Callable:
    answer = question in recording.yes

    def hook(original, args, kwargs):
        asker: Any = sys._getframe(3)  # behind what hooks the function, and the function itself
        if asker.f_globals.get("__name__") in heard.REFUSES:
            return original(*args, **kwargs)
        recording.asked.add(question)
        return answer

    return hook


def _draws(recording: Recording, fixed: bool) -> Callable:
    """Whoever seeds the generator changes it, as one who draws does; what it draws may be known."""

    def hook(original, args, kwargs):
        recording.seeded = fixed
        if recording.guard is not None:
            recording.guard.draws.seen = True
        return original(*args, **kwargs)

    return hook


def _as_written(original, args, kwargs):
    """Functions that would script themselves when traced run as they are: nobody sees into a script."""
    return args[0] if args else kwargs["obj"]


def _whole(original, args, kwargs):
    """int(), as PyTorch's own functions say it of sizes that they compute."""
    x = args[0] if args else kwargs["a"]
    return math.trunc(x) if dims.is_dynamic(x) else original(*args, **kwargs)


def _scopes(recording: Recording, watch: Callable | None) -> Callable:
    """Says which module is running."""
    paths: dict[int, tuple[str, str]] = {}
    for path, module in recording.modules:
        paths[id(module)] = (path, type(module).__name__)
    scopes, callers = recording.scopes, recording.frames.callers

    def hook(original, args, kwargs):
        module = args[0]
        known = paths.get(id(module))
        if known is None:
            known = (scopes[-1][0] if scopes else "", type(module).__name__)
        scopes.append(known)
        callers.append(None)
        try:
            result = original(*args, **kwargs)
        finally:
            scopes.pop()
            callers.pop()
        if watch is not None and not recording.busy:
            recording.busy = True
            try:
                watch(known[0], module, result)
            finally:
                recording.busy = False
        return result

    recording.frames.module_code = hook.__code__
    return hook
