"""Gradients on their way back: one hook on a tensor, for all who want to see or change it.

The callbacks of one tensor run from the outside of the model to the inside: the result of a
Sequential is the very tensor that its last child returned, and the gradient meets the Sequential
first. Callbacks of one place run in the order in which they came, those that only look after those
that change it. Things named by themselves (a parameter, a loss) share one place: `NAMED`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

Callback = Callable[[torch.Tensor], Any]

NAMED = object()  # the place of what is no call's output, but was named as the tensor that it is


class Owner:
    """The owner of placed callbacks, who can remove all of them at once."""

    def __init__(self, busy: Any, changes: bool) -> None:
        self.busy = busy  # a context manager: meanwhile nothing that runs is watched
        self.changes = changes  # its callbacks may return another gradient: they come first
        self.thread = threading.get_ident()
        self.placed: weakref.WeakSet[_Back] = weakref.WeakSet()

    def here(self) -> bool:
        """Return True if this backward pass may be the owner's.

        A leaf is shared by all threads. The pass runs in the thread that started it, or on an
        accelerator in one of autograd's own, which Python does not know by name.
        """
        now = threading.get_ident()
        if now == self.thread:
            return True
        known = [each for each in threading.enumerate() if each.ident == now]
        return all(isinstance(each, threading._DummyThread) for each in known)

    def withdraw(self) -> None:
        for back in list(self.placed):
            back.drop(self)
        self.placed.clear()


class _Back:
    """The hook on a tensor; `groups` are the callbacks of one place each, outermost first."""

    handle: Any = None

    def __init__(self, tensor: torch.Tensor) -> None:
        self.groups: list[tuple[object, list[tuple[Owner, Callback]]]] = []
        self.tensor = weakref.ref(tensor)
        self.fresh = tensor._backward_hooks is None

    def __call__(self, grad: torch.Tensor) -> torch.Tensor | None:
        now = grad
        for _, group in list(self.groups):
            for owner, callback in list(group):
                if owner.here():
                    with owner.busy:
                        new = callback(now)
                    now = now if new is None else new
        return None if now is grad else now

    def add(self, place: object, owner: Owner, callback: Callback) -> None:
        owner.placed.add(self)  # first, so that an interrupt after any of this is made up for
        group = next((group for there, group in self.groups if there is place), None)
        if group is None:
            group = []
            self.groups.insert(0, (place, group))
        group.append((owner, callback))
        group.sort(key=lambda each: not each[0].changes)  # stable

    def drop(self, owner: Owner) -> None:
        for _, group in self.groups:
            group[:] = [each for each in group if each[0] is not owner]
        self.groups[:] = [each for each in self.groups if each[1]]
        if self.groups:
            return
        if self.handle is not None:
            self.handle.remove()
        tensor = self.tensor()
        hooks = None if tensor is None else tensor._backward_hooks
        if tensor is not None and hooks is not None:
            for key in [key for key, hook in hooks.items() if hook is self]:
                del hooks[key]  # hooked, and interrupted before the handle was at hand
            if not hooks and self.fresh:
                tensor._backward_hooks = None


def on(tensor: torch.Tensor, place: object, owner: Owner, callback: Callback) -> None:
    """Call `callback(gradient)` on the way back; its result, if any, replaces the gradient."""
    if not tensor.requires_grad:
        return
    # After a write in place PyTorch starts anew: the former hooks are of the former value.
    there = (h for h in (tensor._backward_hooks or {}).values() if type(h) is _Back)
    found = next(there, None)
    back = found or _Back(tensor)
    back.add(place, owner, callback)
    if found is None:
        back.handle = tensor.register_hook(back)
