"""Copies of tensors that passed through a model: detached, cloned, moved, or reduced."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..packs import nesting


@dataclass
class Keeper:
    """Copier of tensors, also nested ones, so that later writes do not reach the copies."""

    detach: bool = True
    clone: bool = True
    device: Any = None
    reduce: Callable[[torch.Tensor], Any] | None = None
    # One module's output is the next one's input: the same contents are kept once.
    _copies: dict[int, tuple[weakref.ref, int, weakref.ref]] = field(default_factory=dict)

    def keep(self, thing: Any) -> Any:
        """Return the same structure with copied tensors; other objects stay unchanged."""
        if isinstance(thing, torch.Tensor):
            return self._tensor(thing)
        if type(thing) is tuple:  # the usual case; other types are looked up
            return tuple(map(self.keep, thing))
        return nesting.replace(thing, self._leaf)

    def _leaf(self, name: str, leaf: Any) -> Any:
        return self._tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def _tensor(self, leaf: torch.Tensor) -> Any:
        version = -1 if leaf.is_inference() else leaf._version
        there = self._copies.get(id(leaf))
        if there is not None and version >= 0 and there[0]() is leaf and there[1] == version:
            copy = there[2]()
            if copy is not None:
                return copy
        copy = self._copy(leaf)
        if isinstance(copy, torch.Tensor) and copy is not leaf:
            gone = weakref.ref(leaf, _forget(weakref.ref(self), id(leaf)))
            self._copies[id(leaf)] = (gone, version, weakref.ref(copy))
        return copy

    def _copy(self, tensor: torch.Tensor) -> Any:
        made: Any = tensor.detach() if self.detach else tensor
        if self.reduce is not None:
            with torch.no_grad() if self.detach else contextlib.nullcontext():
                made = self.reduce(made)
            if not isinstance(made, torch.Tensor):
                return made
        if self.device is not None:
            made = made.to(self.device)
        if not self.clone:
            return made
        untouched = self.reduce is None and self.device is None
        return made.clone() if untouched or _shares(made, tensor) else made


def _forget(keeper: weakref.ref[Keeper], key: int) -> Callable[[Any], None]:
    """Return a callback that forgets a tensor's copy. It is in no cycle with the copier.

    Python 3.11 crashes where a tensor dies as references to it are collected with a cycle.
    """

    def gone(_: Any) -> None:
        alive = keeper()
        if alive is not None:
            alive._copies.pop(key, None)

    return gone


def _shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether a write to one may reach the other; in doubt, True."""
    if a.layout != torch.strided or b.layout != torch.strided:
        return True
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata
