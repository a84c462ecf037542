"""A Python interpreter of TorchScript: it runs the graph node by node, so that every call is seen.

TorchScript's own interpreter turns sizes into plain numbers before it calls operators. Here sizes
stay sizes: arithmetic on numbers is Python's, and everything else is called through `torch.ops`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ...cleanup import Reversible
from ..recording import Recording
from .run import Run, forked, inlined, is_known


def run(recording: Recording, called: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The result of a ScriptMethod or a ScriptFunction."""
    graph = inlined(called.graph)
    given = [*_owner(called), *args]
    for argument in called.schema.arguments[len(given) :]:
        given.append(kwargs.get(argument.name, argument.default_value))
    return Run(recording, called).graph(graph, given)


class as_it_was(Reversible):
    """`with as_it_was(those):` restores attributes that scripts set, if they run by themselves."""

    def __init__(self, those: set[tuple[Any, str]]) -> None:
        self._set = those
        self._before: list[tuple[Any, str, Any]] = []

    def _set_up(self) -> None:
        self._before = [(owner, name, owner.getattr(name)) for owner, name in self._set]

    def _undo(self) -> None:
        for owner, name, x in self._before:
            owner.setattr(name, x)


def steers(called: Any) -> bool:
    """Return True if all nodes of a script are known, and Python would fix one of its decisions."""
    found = _steers.get(called)
    if found is None:
        kinds = set(_kinds(inlined(called.graph)))
        found = not _STEERING.isdisjoint(kinds) and all(map(is_known, kinds))
        _steers[called] = found
    return found


_steers: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
_STEERING = {"prim::If", "prim::Loop", "aten::size", "aten::len", "aten::Int", "aten::Float",
             "aten::item"}  # fmt: skip


def _kinds(block: Any) -> Iterator[str]:
    for node in block.nodes():
        yield node.kind()
        for inner in [*node.blocks(), *forked(node)]:
            yield from _kinds(inner)


def parameters_of(called: Any) -> list[inspect.Parameter]:
    names = [argument.name for argument in called.schema.arguments][len(_owner(called)) :]
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]


def _owner(called: Any) -> list[Any]:
    return [called.owner] if isinstance(called, torch._C.ScriptMethod) else []
