"""Which converter answers for what arrives at a door, and with which arguments it is called."""

from __future__ import annotations

from builtins import len  # their own: `world` hooks those of the model
import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from . import targets
from .call import Arguments
from .dims import Dim
from .errors import TargetError
from .registration import Registration
from .registry import Registry

# Names that torch accepts for the same parameter.
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x2": "other"}


class Choices:
    """The converters of one export, by the key of what arrives."""

    def __init__(self, registry: Registry, opset: int) -> None:
        self._by_key: dict[Any, list[tuple[Any, Any]]] = {}
        self.functions: dict[Callable, Any] = {}  # plain Python functions to hook -> key
        self.unresolved: dict[str, str] = {}
        for text, choice in registry.select(opset).items():
            try:
                target = targets.resolve(text)
            except TargetError as e:
                self.unresolved[text] = str(e)
                continue
            if target.kind == "absent":
                continue
            self._by_key.setdefault(target.key, []).append((target, choice))
            if target.kind == "callable" and target.function is not None:
                self.functions[target.function] = target.key
        for entries in self._by_key.values():
            # The most specific class first: a converter of SubMConv3d before one of its base.
            entries.sort(key=lambda e: -len(getattr(e[0].owner, "__mro__", ())))

    def of(self, key: Any) -> bool:
        return key in self._by_key

    def pick(self, key: Any, args: tuple = ()) -> Registration | None:
        entries = self._by_key.get(key)
        if entries is None:
            return None
        if len(entries) == 1 and entries[0][0].kind != "callable":
            return entries[0][1].registration
        for target, choice in entries:
            if target.kind != "callable" or _is_of(target.owner, args):
                return choice.registration
        return None

    def fit(self, choice: Registration, given: Arguments) -> tuple[tuple, dict]:
        """The arguments as the converter's signature spells them."""
        args, kwargs = given.args, given.kwargs
        form = _form(choice.function)
        if len(args) > 1 or (args and form.packs_at == 0):
            at = _packs_at(choice.target)
            if at is not None and len(args) > at and type(args[at]) in (int, Dim):
                args = (*args[:at], list(args[at:]))
        if kwargs and not form.takes_any and not kwargs.keys() <= form.names:
            kwargs = dict(kwargs)
            for name in [k for k in kwargs if k not in form.names]:
                other = _SPELLINGS.get(name)
                if other in form.names:
                    kwargs[other] = kwargs.pop(name)
                elif name in ("input", "self", "tensor") and not args:
                    args = (kwargs.pop(name),)
                elif name in _MEANINGLESS:
                    kwargs.pop(name)
        elif kwargs.get("out", 0) is None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        return args, kwargs


# What says where and how a result lies in memory, and nothing of its contents.
_MEANINGLESS = {"out", "memory_format", "layout", "device", "pin_memory", "requires_grad",
                "non_blocking", "copy", "generator", "names"}  # fmt: skip


def _is_of(owner: Any, args: tuple) -> bool:
    if not isinstance(owner, type):
        return True
    return bool(args) and isinstance(args[0], owner)


class _Form:
    __slots__ = ("names", "packs_at", "takes_any")

    def __init__(self, function: Callable) -> None:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.names = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        self.takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters)
        self.packs_at = 0


_form = functools.lru_cache(maxsize=None)(_Form)


@functools.cache
def _packs_at(text: str) -> int | None:
    """Where torch takes `x.view(2, 3)` for `x.view([2, 3])`: the position of that list."""
    try:
        key = targets.resolve(text).key
    except TargetError:
        return None
    if not isinstance(key, str) or not key.startswith("aten::"):
        return None
    packet = getattr(torch.ops.aten, key.removeprefix("aten::"), None)
    if packet is None:
        return None
    for overload in packet.overloads():
        for i, argument in enumerate(getattr(packet, overload)._schema.arguments[:2]):
            if argument.kwarg_only:
                break
            if str(argument.type) in ("List[int]", "List[SymInt]") and argument.N is None:
                return i
    return None
