"""Installation of every hook for one recording, and their removal, whatever happens.

They are the doors, module scopes, custom autograd functions, the builtins that carry sizes, and the
questions that model libraries ask before they choose an export-friendly path.
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

from ...cleanup import Reversible
from ...ir.sizes import (
    departures,
    dims,
    integer_functions,
    remainders,
    size_lists,
    size_texts,
    text_formulas,
)
from ...ir.sizes.departures import Listener, listen, listening
from ...torchworld import imports, patching, stage
from ...torchworld.modes import modes
from ...torchworld.spelling import (
    followed_functions,
    handed_sizes,
    iterations,
    lookups,
    reachable_functions,
    respelling,
    rounds,
    spellings,
)
from ...torchworld.state import function_caches
from .. import higher
from ..memory import numpy_arrays
from ..reads.note_escapes import size_left
from ..recording import Recording, _local, current
from ..rounds import rows_in_turn
from ..runs import seeds
from . import (
    builtin_hooks,
    callables,
    copying,
    fused,
    layers_by_index,
    numpy_hooks,
    reductions,
    threads,
    written_code,
)
from .doors import FunctionDoor, OperatorDoor
from .tracing_questions import REFUSES, tracing_questions

# Files whose code computes with sizes on behalf of its caller.
_SIZE_CODE = frozenset(
    str(module.__file__)
    for module in (
        builtin_hooks,
        departures,
        dims,
        followed_functions,
        handed_sizes,
        integer_functions,
        iterations,
        lookups,
        patching,
        reductions,
        respelling,
        rounds,
        size_lists,
        size_texts,
        spellings,
        text_formulas,
    )
)
_C: Any = torch._C  # its stub leaves out some of what is used here


class recorded(Reversible):
    """`with recorded(recording):` records what this thread does in the block."""

    def __init__(self, recording: Recording, watch: Callable | None = None) -> None:
        self._recording, self._watch = recording, watch
        self._steps: list[Callable[[], Any]] = []
        # Before 2.10, what PyTorch takes off its stack has to be referenced elsewhere, too.
        self._doors = recording.running.doors = OperatorDoor(recording), FunctionDoor(recording)

    def _set_up(self) -> None:
        recording, later = self._recording, self._steps.append
        later(functools.partial(setattr, _local, "recording", current()))
        later(functools.partial(listen, listening()))
        later(functools.partial(remainders.know, remainders.current()))
        later(functools.partial(torch._C._set_grad_enabled, torch.is_grad_enabled()))
        later(stage.as_now())
        later(_modes_as_now())
        hooked = patching.hooks(_hooks(recording, self._watch))
        # If several hooks are for one function, the last one applies.
        model = recording.model
        cached = function_caches.places(*model.searched()) if recording.builder.sizes.named else []
        stored = patching.attributes(
            [
                *cached,
                *builtin_hooks.places(recording, numpy_hooks.places(recording)),
                *callables.places(recording),
                *seeds.places(recording),
                *threads.places(recording),
            ]
        )
        respelled = patching.hooks(_respelled(recording), beneath=True)
        later(respelling.forget_files())
        for patches in (hooked, stored, respelled):
            later(functools.partial(patches.__exit__, None, None, None))
        finder = imports.Finder(functools.partial(self._hook_imported, set(tracing_questions())))
        later(finder.take_back)
        finder.put()
        _local.recording = recording
        listen(
            Listener(
                functools.partial(size_left, recording, _SIZE_CODE),
                size_lists.repeated,
                functools.partial(layers_by_index.from_list, recording),
                lambda: len(recording.builder.nodes),
                lambda: sum(question.of_values for question in recording.questions.each),
                recording.memory.lengths.fill,
                functools.partial(numpy_arrays.beside, recording),
                recording.switches.selects,
                recording.code.selectable,
            )
        )
        remainders.know(recording.questions.left_over)
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
        stage.lift()  # a function as rewritten by the user is part of the model
        modes.give_the_model()
        _C._set_torch_function_state(_C._TorchFunctionState.ENABLED)

    def _hook_imported(self, hooked: set[Callable]) -> None:
        """Hook the questions about tracing in a module that the model has just imported."""
        new = {f: q for f, q in tracing_questions().items() if f not in hooked}
        hooked.update(new)
        if new:
            patches = patching.hooks({f: _answers(self._recording, q) for f, q in new.items()})
            self._steps.append(functools.partial(patches.__exit__, None, None, None))
            patches.__enter__()

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


def _respelled(recording: Recording) -> dict[Any, Callable]:
    """The hooks that run respelled copies of the functions that the model can reach."""
    function, modules, attributes = recording.model.searched()
    things = [thing for _, _, _, thing in attributes]
    unnamed = recording.code.unnamed_functions
    hooks = respelling.hooks(reachable_functions.reachable(function, modules, things, unnamed))
    recording.code.respelled |= {patching.own_code(function) for function in hooks}
    return hooks


def _modes_as_now() -> Callable[[], None]:
    """A function that removes the modes that were pushed since, however the block is left."""
    functions, operators = _len_torch_function_stack(), _len_torch_dispatch_stack()
    state = _C._get_torch_function_state()

    def back() -> None:
        while _len_torch_function_stack() > functions:
            pop_functions()
        while _len_torch_dispatch_stack() > operators:
            pop_operators(None)
        _C._set_torch_function_state(state)

    return back


class aside(Reversible):
    """`with aside():` an export inside of a recorded forward is no part of that recording."""

    def __init__(self) -> None:
        self._outer = current()
        self._was = self._outer is not None and self._outer.running.busy

    def _set_up(self) -> None:
        if self._outer is not None:
            self._outer.running.busy = True

    def _undo(self) -> None:
        if self._outer is not None:
            self._outer.running.busy = self._was


def _hooks(recording: Recording, watch: Callable | None) -> dict:
    hooks: dict[Any, Callable] = {
        **higher.hooks(recording),
        **copying.hooks(recording),
        **fused.hooks(recording),
        **layers_by_index.hooks(recording),
        **callables.hooks(recording),
        **written_code.hooks(recording),
        **threads.hooks(recording),
        **rows_in_turn.hooks(recording),
    }
    hooks[torch.nn.Module._call_impl] = _scopes(recording, watch)
    for function, question in tracing_questions().items():
        hooks[function] = _answers(recording, question)
    for sets in (torch.random.manual_seed, torch.random.seed, torch.random.set_rng_state):
        hooks[sets] = _draws(recording, sets is torch.random.manual_seed)
    hooks[torch.jit.script] = _as_written
    hooks[torch.sym_int] = _whole
    # Code compiled by torch.compile runs as it was written. Its own switch is for all threads.
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None:
        hooks[dynamo._callback_from_stance] = lambda original, args, kwargs: None
    return hooks


def _answers(recording: Recording, question: str) -> Callable:
    answer = question in recording.switches.answered_yes

    def hook(original, args, kwargs):
        asker: Any = sys._getframe(3)  # behind what hooks the function, and the function itself
        if asker.f_globals.get("__name__") in REFUSES:
            return original(*args, **kwargs)
        recording.findings.tracing_questions.add(question)
        return answer

    return hook


def _draws(recording: Recording, fixed: bool) -> Callable:
    """Note that the model seeds the generator; if `fixed`, later draws are known."""

    def hook(original, args, kwargs):
        recording.draws.seeded = fixed
        if recording.model.guard is not None:
            recording.model.guard.draws.seen = True
        return original(*args, **kwargs)

    return hook


def _as_written(original, args, kwargs):
    """Return a function that would be scripted as it was written: a script hides its calls."""
    return args[0] if args else kwargs["obj"]


def _whole(original, args, kwargs):
    """Handle int() as PyTorch's own functions call it on sizes that they compute."""
    x = args[0] if args else kwargs["a"]
    return math.trunc(x) if dims.is_dynamic(x) else original(*args, **kwargs)


def _scopes(recording: Recording, watch: Callable | None) -> Callable:
    """A handler of module calls that keeps the path of the module that runs."""
    paths: dict[int, tuple[str, str]] = {}
    for path, module in recording.model.modules:
        paths[id(module)] = (path, type(module).__name__)
    scopes, callers = recording.position.scopes, recording.position.frames.callers

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
        if watch is not None and not recording.running.busy:
            recording.running.busy = True
            try:
                watch(known[0], module, result)
            finally:
                recording.running.busy = False
        return result

    recording.position.frames.module_code = hook.__code__
    return hook
