"""`hx.rewrite`: replaces activations and gradients inside a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import UsageError
from ..packs import nesting
from ..torchworld import gradient_hooks
from ..torchworld.stage import Session, Watcher
from ..torchworld.watched_places import Places, find, split

_KEEP: Any = object()  # an `input=None` would be a value like any other


class Rewrite(Session):
    """Context manager of a rewrite; `count` is the number of replacements so far."""

    _watcher: _Rewriter

    @property
    def count(self) -> int:
        return self._watcher.count


def rewrite(
    *what: Any,
    but: Any = (),
    input: Any = _KEEP,
    output: Any = _KEEP,
    gradient: Any = _KEEP,
) -> Rewrite:
    """`with hx.rewrite(model, "relu", output=lambda y: 2 * y):` changes what flows.

    what      the model, then places: names, globs, classes, modules, functions (`F.relu`), names
              of parameters or `nn.Parameter` for all of them, tensors
    but       places to leave out
    input     called with the arguments; returns the new first argument, or a tuple of all
              positional ones
    output    called with the output; returns the new one
    gradient  called with the gradient of each output tensor, parameter or tensor that was named;
              returns the new one, of the same shape

    A function that returns None changes nothing. Anything but a function is the new value itself.

    Several rewrites of one place run in the order in which their blocks were entered: for inputs,
    for outputs and for gradients alike. Gradients belong to the output after all rewrites; if
    places share a tensor, that of the outer module is first.
    """
    model, wanted = split(what)
    if input is _KEEP and output is _KEEP and gradient is _KEEP:
        raise UsageError("nothing to rewrite", hint="give input=, output= or gradient=")
    if not wanted:
        raise UsageError(
            "hx.rewrite needs a place", hint='name places: hx.rewrite(model, "layer4", output=...)'
        )
    places = find(model, wanted, but)
    leaves = [*places.parameters, *places.tensors]
    if leaves and gradient is _KEEP:
        raise UsageError(
            f"{', '.join(leaves[:3])} can only have another gradient",
            hint="parameters and tensors flow through no call: give gradient=",
        )
    return Rewrite(_Rewriter(places, input, output, gradient))


class _Rewriter(Watcher):
    rewrites = True

    def __init__(self, places: Places, input: Any, output: Any, gradient: Any) -> None:
        super().__init__(places)
        self.input, self.output, self.gradient = input, output, gradient
        self.count = 0

    def start(self) -> None:
        if self.gradient is not _KEEP:
            for tensor in (*self.places.parameters.values(), *self.places.tensors.values()):
                gradient_hooks.on(tensor, gradient_hooks.NAMED, self.owner, self._back)

    def enter(self, name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict, Any]:
        if self.input is _KEEP:
            return args, kwargs, None
        new = self._ask(self.input, args, kwargs)
        if new is None:
            return args, kwargs, None
        self.count += 1
        if isinstance(new, tuple):
            return new, kwargs, None
        if args or not kwargs:
            return (new, *args[1:]), kwargs, None
        first = next(iter(kwargs))
        return args, {**kwargs, first: new}, None

    def change(self, name: str, token: Any, output: Any) -> Any:
        if self.output is _KEEP:
            return output
        new = self._ask(self.output, (output,), {})
        if new is None:
            return output
        self.count += 1
        return new

    def leave(self, name: str, token: Any, output: Any, visit: object) -> None:
        if self.gradient is _KEEP:
            return
        for _, leaf in nesting.leaves(output):
            if isinstance(leaf, torch.Tensor):
                gradient_hooks.on(leaf, visit, self.owner, self._back)

    def _back(self, gradient: torch.Tensor) -> Any:
        new = self._ask(self.gradient, (gradient,), {})
        self.count += new is not None
        return new

    def _ask(self, how: Callable | Any, args: tuple, kwargs: dict) -> Any:
        return how(*args, **kwargs) if callable(how) else how
