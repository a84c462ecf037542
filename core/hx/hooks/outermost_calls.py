"""Calls of modules that a running script makes itself, not those that a module makes inside."""

from __future__ import annotations

import concurrent.futures.thread
import dataclasses
import threading
from collections.abc import Callable, Hashable
from typing import Any

import torch

from .. import dtypes
from ..budget import BUDGET
from ..cleanup import Reversible, run_inside
from ..ir.call_arguments import Arguments
from ..packs import nesting
from ..torchworld import patching
from .keeping import Keeper


@dataclasses.dataclass
class CalledModule:
    """A module that was called, and those of its calls that are kept: each has other shapes."""

    module: torch.nn.Module
    count: int = 0  # calls that returned
    kept: dict[Hashable, Arguments] = dataclasses.field(default_factory=dict)
    left_out: int = 0  # calls at further shapes, for which there was no room


class _Here(threading.local):
    """State of a thread: whether it is inside of a call of a module."""

    inside = False


class OutermostCalls(Reversible):
    """`with OutermostCalls() as calls: ...` keeps the inputs of calls in this thread and those it starts.

    Each input is a copy on the CPU. Compiled code runs as it was written, so that calls are seen.
    A thread that a followed one starts is followed, unless a module starts it inside its call.
    """

    def __init__(self) -> None:
        self.modules: list[CalledModule] = []
        self.left_out = 0  # calls of further modules
        self._by_id: dict[int, CalledModule] = {}
        self._bytes = 0
        self._here = _Here()
        self._patchings: list[Any] = []  # one for each thread
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()  # of what is kept
        self._stance: Any = None

    def _set_up(self) -> OutermostCalls:
        self._hooks().__enter__()
        return self

    def _hooks(self) -> Any:
        """Return hooks for one thread, which are undone with all others at the latest."""
        hooked = {
            torch.nn.Module._call_impl: self._called,
            torch.compile: self._compiled,
            threading.Thread.start: self._started,
        }
        self._patchings.append(patching.hooks(hooked, beneath=True))
        return self._patchings[-1]

    def wait(self) -> None:
        """Wait for the threads, as Python does at its end.

        Those of executors are left out: Python stops them first, and they wait for work until then.
        """
        pooled = concurrent.futures.thread._threads_queues
        for thread in self._threads:  # which may grow
            if not thread.daemon and thread not in pooled:
                thread.join()

    def _undo(self) -> None:
        for each in self._patchings:
            each.close()
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)

    def _compiled(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Let compiled code run as it was written, from the first `torch.compile` on."""
        with self._lock:
            if self._stance is None:
                self._stance = torch.compiler.set_stance("force_eager")
        return original(*args, **kwargs)

    def _started(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Let a thread that starts here be followed from its first line on."""
        thread = args[0]
        if not self._here.inside:
            run = thread.run

            def followed() -> None:
                del thread.run
                run_inside(self._hooks(), lambda _: run()) if self._open else run()

            thread.run = followed
            self._threads.append(thread)
        return original(*args, **kwargs)

    def _called(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self._here.inside or not self._open:  # a thread may outlive this
            return original(*args, **kwargs)
        self._here.inside = True
        try:
            with self._lock:
                known = self._known(args[0])
                given = None if known is None else self._copied(known, args[1:], kwargs)
            result = original(*args, **kwargs)
            if known is not None:
                with self._lock:
                    known.count += 1
                    if given is not None and given[0] not in known.kept:
                        self._keep(known, *given)
            return result
        finally:
            self._here.inside = False

    def _known(self, module: torch.nn.Module) -> CalledModule | None:
        original = getattr(module, "_orig_mod", module)  # of torch.compile
        known = self._by_id.get(id(original))
        if known is None and len(self.modules) < BUDGET.proposals.modules:
            known = self._by_id[id(original)] = CalledModule(original)
            self.modules.append(known)
        self.left_out += known is None
        return known

    def _copied(
        self, known: CalledModule, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[Hashable, Arguments] | None:
        """Return a copy of the arguments, made before the call may write to them."""
        leaves = [*nesting.leaves((args, kwargs))]
        key = tuple((name, _form(leaf)) for name, leaf in leaves)
        if key in known.kept:
            return None
        size = sum(t.numel() * t.element_size() for _, t in leaves if isinstance(t, torch.Tensor))
        full = len(known.kept) >= BUDGET.proposals.calls
        if full or self._bytes + size > BUDGET.proposals.kept_inputs:
            known.left_out += 1
            return None
        with torch.inference_mode(False), torch.no_grad():
            keeper = Keeper(device="cpu")

            def copied(name: str, leaf: Any) -> Any:
                return keeper.keep(leaf) if isinstance(leaf, torch.Tensor) else nesting.own(leaf)

            args, kwargs = nesting.replace((args, kwargs), copied)
        return key, Arguments(args, kwargs)

    def _keep(self, known: CalledModule, key: Hashable, given: Arguments) -> None:
        known.kept[key] = given
        self._bytes += sum(
            t.numel() * t.element_size()
            for _, t in nesting.leaves((given.args, given.kwargs))
            if isinstance(t, torch.Tensor)
        )


def _form(leaf: Any) -> str:
    """Describe a leaf by what a graph depends on: dtype and shape of a tensor, or a value."""
    if isinstance(leaf, torch.Tensor):
        return f"{dtypes.name(leaf.dtype)}{[*leaf.shape]}"
    return f"{type(leaf).__name__} {leaf!r}" if isinstance(leaf, _PLAIN) else type(leaf).__name__


_PLAIN = (int, float, bool, str, bytes, complex, type(None))
