"""Calls of modules that a running script makes itself, not those that a module makes inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

import torch

from ..budget import BUDGET
from ..cleanup import Reversible
from ..ir.call_arguments import Arguments
from ..packs import nesting
from ..torchworld import patching
from .describe import dtype_name
from .keeping import Keeper


@dataclasses.dataclass
class CalledModule:
    """A module that was called, and those of its calls that are kept: each has other shapes."""

    module: torch.nn.Module
    count: int = 0  # calls that returned
    kept: dict[Hashable, Arguments] = dataclasses.field(default_factory=dict)
    left_out: int = 0  # calls at further shapes, for which there was no room


class OutermostCalls(Reversible):
    """`with OutermostCalls() as calls: ...` keeps the inputs of the calls in this thread.

    Each input is a copy on the CPU. Compiled code runs as it was written, so that calls are seen.
    """

    def __init__(self) -> None:
        self.modules: list[CalledModule] = []
        self.left_out = 0  # calls of further modules
        self._by_id: dict[int, CalledModule] = {}
        self._bytes = 0
        self._inside = False
        self._patching: Any = None
        self._stance: Any = None

    def _set_up(self) -> OutermostCalls:
        hooked = {torch.nn.Module._call_impl: self._called, torch.compile: self._compiled}
        self._patching = patching.hooks(hooked, beneath=True)
        self._patching.__enter__()
        return self

    def _undo(self) -> None:
        if self._patching is not None:
            self._patching.close()
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)

    def _compiled(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Let compiled code run as it was written, from the first `torch.compile` on."""
        if self._stance is None:
            self._stance = torch.compiler.set_stance("force_eager")
        return original(*args, **kwargs)

    def _called(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self._inside:
            return original(*args, **kwargs)
        self._inside = True
        try:
            known = self._known(args[0])
            given = None if known is None else self._copied(known, args[1:], kwargs)
            result = original(*args, **kwargs)
            if known is not None:
                known.count += 1
                if given is not None:
                    self._keep(known, *given)
            return result
        finally:
            self._inside = False

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
        if full or self._bytes + size > BUDGET.bytes.kept_inputs:
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
        return f"{dtype_name(leaf)}{[*leaf.shape]}"
    return f"{type(leaf).__name__} {leaf!r}" if isinstance(leaf, _PLAIN) else type(leaf).__name__


_PLAIN = (int, float, bool, str, bytes, complex, type(None))
