"""Copies of a module's attributes, and of the containers that these are, to restore them.

It goes by identity only: nothing is copied, compared or asked of the module itself, whose
`__setattr__`, `__getattr__` and `modules()` may be anything.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import filterfalse
from typing import Any

import torch

from .iterator_state import exchanged
from .remembered_items import (
    SIMPLE,
    contents,
    filled_slots,
    identical,
    restore_container,
    restore_dict,
)

_CONTAINERS = (dict, list, set, deque)
_PLAIN = frozenset({dict, OrderedDict, list, set})
_OF_EVERY = frozenset(vars(torch.nn.Module()))  # the attributes that every module has

# Something that a module has beside its numbers, words and flags: path, module, attribute, and it.
Thing = tuple[str, torch.nn.Module, str, Any]


class Shallow:
    """One module, as it was."""

    __slots__ = (
        "cls", "containers", "empty", "filled", "items", "module", "own", "scripted", "slots", "state",
        "training",
    )  # fmt: skip

    def __init__(self, module: torch.nn.Module) -> None:
        self.module, self.cls, self.state = module, type(module), vars(module)
        self.items = dict(self.state)
        # Most are the hook tables of a module without hooks: those only have to be empty again.
        held = [
            v for v in self.items.values()
            if type(v) in _PLAIN or (type(v) not in SIMPLE and isinstance(v, _CONTAINERS))
        ]  # fmt: skip
        self.empty = list(filterfalse(len, held))
        self.filled = {id(value): (value, contents(value)) for value in filter(len, held)}
        self.own = [item for item in _besides(self.items) if not _is_simple(item[1])]
        self.containers: list[tuple[str, Any]] = []  # its own, by attribute
        self.slots = filled_slots(module)
        # The attributes of a scripted module live in C++.
        scripted = isinstance(module, torch.jit.ScriptModule)
        self.scripted = scripted
        self.training = getattr(module, "training", None) if scripted else None  # frozen: none

    def tensors(self) -> list[tuple[str, str, torch.Tensor]]:
        """(name, kind, tensor) of all that it holds, directly or in a container."""
        found = []
        for key, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for name, item in (self.items.get(key) or {}).items():
                if isinstance(item, torch.Tensor):
                    found.append((str(name), kind, item))
        for key, value in self.own:
            if isinstance(value, torch.Tensor):
                found.append((key, "attribute", value))
            elif isinstance(value, _CONTAINERS):
                self.containers.append((key, value))
                for name, item in value.items() if isinstance(value, dict) else enumerate(value):
                    if isinstance(item, torch.Tensor):
                        found.append((f"{key}[{name}]", "attribute", item))
        if self.scripted:
            for name, item in self.module.named_parameters(recurse=False):
                found.append((name, "parameter", item))
            for name, item in self.module.named_buffers(recurse=False):
                found.append((name, "buffer", item))
        return found

    def changed(self) -> list[str]:
        """The attributes that have changed, or hold a container that has."""
        now = self.state
        found = [name for name, value in self.containers if self._is_other(value)]
        if len(now) != len(self.items) or not identical(now.values(), self.items.values()):
            found += [k for k, v in _besides(now) if v is not self.items.get(k, self)]
        return found

    def is_same(self) -> bool:
        """Return True if there is nothing to restore."""
        return (
            type(self.module) is self.cls
            and list(self.state) == list(self.items)
            and identical(self.state.values(), self.items.values())
            and not any(map(len, self.empty))
            and not any(self._is_other(held) for held, _ in self.filled.values())
            and all(a[1] is b[1] for a, b in zip(filled_slots(self.module), self.slots))
            and (self.training is None or self.module.training == self.training)
        )

    def _is_other(self, container: Any) -> bool:
        was, now = self.filled.get(id(container), (None, ()))[1], contents(container)
        return len(was) != len(now) or not identical(was, now)

    def restore(self) -> None:
        if type(self.module) is not self.cls:  # as lazy modules do in their first forward
            object.__setattr__(self.module, "__class__", self.cls)
        restore_dict(self.state, self.items)
        for value, was in self.filled.values():
            restore_container(value, was)
        for value in filter(len, self.empty):
            value.clear()
        for descriptor, value in self.slots:
            descriptor.__set__(self.module, value)
        if self.training is not None and self.module.training != self.training:
            self.module.training = self.training

    def exchange(self, instead: dict[int, Any]) -> None:
        """Restore other objects than those with these ids."""
        self.items = exchanged(self.items, instead)
        self.filled = {i: (held, exchanged(was, instead)) for i, (held, was) in self.filled.items()}
        self.slots = [(slot, instead.get(id(x), x)) for slot, x in self.slots]


def walk(root: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Every module once, with its path."""
    found: list[tuple[str, torch.nn.Module]] = []
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, module = waiting.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        found.append((path, module))
        children: Any = vars(module).get("_modules")
        if type(children) in _PLAIN and not children:  # most are leaves
            continue
        if isinstance(module, torch.jit.ScriptModule):
            children = dict(module.named_children())
        below = [(f"{path}.{n}" if path else n, m) for n, m in (children or {}).items()]
        waiting += reversed(below)
    return found


def _besides(state: dict[str, Any]) -> list[tuple[str, Any]]:
    """The attributes of a module that not every module has, as a dict's items."""
    return [item for item in state.items() if item[0] not in _OF_EVERY]


def _is_simple(thing: Any) -> bool:
    kind = type(thing)
    return kind in SIMPLE or (kind is tuple and SIMPLE.issuperset(map(type, thing)))


def buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    if isinstance(module, torch.jit.ScriptModule):
        return dict(module.named_buffers(recurse=False))
    return _tensors(vars(module).get("_buffers"))


def parameters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    if isinstance(module, torch.jit.ScriptModule):
        return dict(module.named_parameters(recurse=False))
    return _tensors(vars(module).get("_parameters"))


def weight_bytes(root: torch.nn.Module) -> int:
    """The bytes of a model's parameters."""
    return sum(
        tensor.numel() * tensor.element_size()
        for _, module in walk(root)
        for tensor in parameters(module).values()
    )


def _tensors(table: dict[str, Any] | None) -> dict[str, torch.Tensor]:
    if not table:
        return {}
    return {k: v for k, v in table.items() if isinstance(v, torch.Tensor)}
