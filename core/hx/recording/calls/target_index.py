"""An index of a registry's converters, by the key of the call that arrives at a door.

It is built once for a registry and an opset, and rebuilt when a name means something else: another
library was imported, or a function was replaced.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ...errors import TargetError
from ...packs import targets
from ...packs.name_cache import NameCache
from ...packs.registry import Choice, Registry
from ...packs.targets import Target
from ...torchworld.spelling.original_code import is_defined, replaced
from . import compiled_calls


class Answering:
    def __init__(self, registry: Registry, opset: int) -> None:
        self._chosen = _chosen(registry, opset)
        self.by_key: dict[Any, list[tuple[Target, Choice]]] = {}
        self.complex: dict[Any, list[tuple[Target, Choice]]] = {}  # those for complex numbers
        self.functions: dict[Callable, Any] = {}  # plain Python functions to hook -> key
        self.places: list[tuple[Any, str, Any]] = []  # without code: owner, attribute, key
        self.compiled: list[tuple[Any, Any]] = []  # those that are functions of modules, and key
        # Objects that are called: the __call__ of their class -> by their ids, they and their keys.
        self.objects: dict[Callable, dict[int, tuple[Any, Any]]] = {}
        self.idle: list[str] = []  # notes on converters that answer for nothing
        self.replaced: dict[Any, str] = {}  # functions that stand where targets were -> target
        # Functions behind replaced ones, whose bodies call them: for those without a converter.
        self._behind: list[tuple[dict[Any, list[tuple[Target, Choice]]], Target, Choice]] = []
        found: dict[str, Target | None] = {}
        lost: dict[str, list[TargetError]] = {}  # by pack, targets that do not exist
        own = {pack.key for pack in registry.packs if pack.distribution == "hx"}
        plain, complex_ = self._chosen
        for text, choice, target in _resolved(plain, found):
            if isinstance(target, Target):
                self._add(text, choice, target)
            elif registry.is_by_hand(choice.candidates[0]):
                self.idle.append(f"a converter added by hand answers for nothing: {target.what}")
            elif type(target) is TargetError and choice.candidates[0].pack not in own:
                # Other libraries may not be installed; hx's own converters are for many versions.
                lost.setdefault(choice.candidates[0].pack, []).append(target)
        self.idle += [_answering_for_nothing(pack, problems) for pack, problems in lost.items()]
        for _, choice, target in _resolved(complex_, found):
            if isinstance(target, Target):
                self._add_complex(choice, target)
        for answers, target, choice in self._behind:
            answers.setdefault(target.key, [(target, choice)])
        self._names = NameCache(found)

    def stands(self, registry: Registry, opset: int) -> bool:
        now = _chosen(registry, opset)
        same = all(a is b for a, b in zip(now, self._chosen))
        return same and self._names.holds()

    def _add(self, text: str, choice: Choice, target: Target) -> None:
        if target.kind == "absent":
            return
        if target.kind == "callable":
            if replaced(target.owner, target.attribute, target.function):
                self.replaced[target.function] = text
                self._add_behind(self.by_key, choice, target)
                return
            if target.function is not None:
                self.functions[target.function] = target.key
            elif target.key not in self.by_key:
                self._without_code(target)
        self.by_key.setdefault(target.key, []).append((target, choice))

    def _add_complex(self, choice: Choice, target: Target) -> None:
        if target.kind == "callable" and replaced(target.owner, target.attribute, target.function):
            self._add_behind(self.complex, choice, target)
        elif target.kind != "absent":
            self.complex.setdefault(target.key, []).append((target, choice))

    def _add_behind(self, answers: dict[Any, Any], choice: Choice, target: Target) -> None:
        """Add the function behind a replaced name of torch: its calls still arrive."""
        key = f"aten::{target.attribute}"
        if target.text.startswith("torch.") and hasattr(torch.ops.aten, target.attribute):
            behind = Target(target.text, "operator", key, target.owner, target.attribute)
            if is_defined(target.owner, target.attribute):
                self._behind.append((answers, behind, choice))
            else:
                answers.setdefault(key, []).append((behind, choice))

    def _without_code(self, target: Target) -> None:
        thing = target.raw
        body = None if isinstance(thing, type) else vars(type(thing)).get("__call__")
        if isinstance(body, types.FunctionType):
            self.objects.setdefault(body, {})[id(thing)] = thing, target.key
            return
        self.places.append((target.owner, target.attribute, target.key))
        if isinstance(target.owner, types.ModuleType) and compiled_calls.is_function(thing):
            self.compiled.append((thing, target.key))


def _answering_for_nothing(pack: str, problems: list[TargetError]) -> str:
    first, rest = problems[0], len(problems) - 1
    more = f"; and {rest} more" if rest else ""
    hint = f" ({first.hint})" if first.hint else ""
    return f"a converter of {pack} answers for nothing: {first.what}{hint}{more}"


_known: weakref.WeakKeyDictionary[Registry, dict[int, Answering]] = weakref.WeakKeyDictionary()


def of(registry: Registry, opset: int) -> Answering:
    known = _known.setdefault(registry, {})
    found = known.get(opset)
    if found is None or not found.stands(registry, opset):
        found = known[opset] = Answering(registry, opset)
    return found


def _chosen(registry: Registry, opset: int) -> tuple[Mapping[str, Choice], Mapping[str, Choice]]:
    return registry.select(opset), registry.select(opset, complex=True)


def _resolved(
    chosen: Mapping[str, Choice], found: dict[str, Target | None]
) -> Iterator[tuple[str, Choice, Target | TargetError]]:
    """The target that each name means, or the reason why it means none; `found` gets it, or
    None.
    """
    for text, choice in chosen.items():
        try:
            found[text] = target = targets.resolve(text)
        except TargetError as problem:
            found[text] = None
            yield text, choice, problem
        else:
            yield text, choice, target
