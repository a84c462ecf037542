"""State beside a model's modules: variables around its functions, their defaults, and globals.

A counter that a function declares `nonlocal`, a memo in a dict beside it, a list in a default: the
model changes them as it runs, as it changes its attributes. They are found through the functions
that the model's own code names (`reachable_functions`), and remembered like what lies below its
modules.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...budget import BUDGET
from ..spelling.reachable_functions import names, reachable
from . import nested_state, shallow
from .iterator_state import exchanged, is_iterator
from .kept_tensor import KeptTensor
from .remembered_items import CONTAINERS, SIMPLE

_EMPTY = object()
_STORES = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
# Kinds of objects that are never put back: a library that was imported stays imported.
_MADE_ONCE = (type, types.ModuleType, torch.nn.Module)


class Variable:
    """A variable of a function around another one, or a global, as it was."""

    __slots__ = ("path", "place", "was")

    def __init__(self, path: str, place: types.CellType | dict[str, Any]) -> None:
        self.path, self.place = path, place
        self.was = self._now()

    def _now(self) -> Any:
        if isinstance(self.place, dict):
            return self.place.get(self.path, _EMPTY)
        try:
            return self.place.cell_contents
        except ValueError:  # nothing yet
            return _EMPTY

    def changed(self) -> list[str]:
        now = self._now()
        return [self.path] if now is not self.was and _is_data(now) and _is_data(self.was) else []

    def restore(self) -> None:
        if not self.changed():
            return
        if isinstance(self.place, dict):
            if self.was is _EMPTY:
                self.place.pop(self.path, None)
            else:
                self.place[self.path] = self.was
        elif self.was is _EMPTY:
            del self.place.cell_contents
        else:
            self.place.cell_contents = self.was

    def exchange(self, instead: dict[int, Any]) -> None:
        self.was = instead.get(id(self.was), self.was)


class Defaults:
    """The defaults of a function: an iterator among them may have to be replaced."""

    def __init__(self, function: types.FunctionType) -> None:
        self._function = function

    def exchange(self, instead: dict[int, Any]) -> None:
        given, named = self._function.__defaults__, self._function.__kwdefaults__
        if not instead.keys().isdisjoint(map(id, given or ())):
            self._function.__defaults__ = exchanged(given, instead)
        if named is not None:
            named.update(exchanged(named, instead))


class FunctionState:
    """A memory of all this for one model, to restore it."""

    def __init__(self, model: Callable[..., Any], root: torch.nn.Module) -> None:
        modules = [module for _, module in shallow.walk(root)]
        held = [x for module in modules for x in vars(module).values() if type(x) not in SIMPLE]
        functions = list(reachable(_called(model), modules, held, ()))
        variables = {key: each for f in functions for key, each in _variables(f)}
        known = {id(module) for module in modules}.union(map(id, held))
        for module in modules:
            known.update(map(id, shallow.parameters(module).values()))
            known.update(map(id, shallow.buffers(module).values()))
        first = [(each.path, each.was) for each in variables.values() if each.was is not _EMPTY]
        first += [pair for f in functions for pair in _holders(f)]
        states, tensors = nested_state.search(
            [*first, *_own(model)], (), known, [*variables.values(), *map(Defaults, functions)]
        )
        self.states: list[Variable | nested_state.State] = [*variables.values(), *states]
        self.tensors = [KeptTensor(path, "held", tensor) for path, tensor in tensors]
        if (
            sum(k.alias.numel() * k.alias.element_size() for k in self.tensors)
            < BUDGET.bytes.buffers
        ):
            for kept in self.tensors:
                kept.keep()

    def changed(self) -> list[str]:
        """Return the names of what has changed."""
        found = [name for state in self.states for name in state.changed()]
        found += [kept.name for kept in self.tensors if not kept.untouched and kept.changed]
        return list(dict.fromkeys(found))

    def restore(self) -> None:
        for kept in self.tensors:
            if not kept.untouched:
                kept.put_back()
        for state in reversed(self.states):
            state.restore()


def _is_data(thing: Any) -> bool:
    """Return True for what a model may compute, in contrast to what it builds or loads once."""
    kind = type(thing)  # an object may answer anything when asked for its class
    if thing is _EMPTY or kind in SIMPLE or issubclass(kind, (*CONTAINERS, torch.Tensor)):
        return True
    if is_iterator(thing):
        return True
    if issubclass(kind, _MADE_ONCE) or callable(thing):
        return False
    return nested_state.is_of_a_model(kind) or kind.__module__ == "numpy"


def _called(model: Any) -> Any:
    """Return the function of a callable object."""
    plain = isinstance(model, (torch.nn.Module, functools.partial, types.MethodType))
    if plain or isinstance(model, types.FunctionType):
        return model
    return type(model).__call__


def _own(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a callable holds itself: a bound object, or arguments that go with it."""
    if isinstance(model, functools.partial):
        yield "args", model.args
        yield "keywords", model.keywords
        yield from _own(model.func)
    elif isinstance(model, types.MethodType):
        yield "self", model.__self__
    elif not isinstance(model, (torch.nn.Module, types.FunctionType)):
        yield "self", model


def _variables(function: types.FunctionType) -> Iterator[tuple[Any, Variable]]:
    """Yield the variables that a function may rebind, or move on, each with what it is known by."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        yield id(cell), Variable(name, cell)
    space = function.__globals__
    kept = {name for name in names(function.__code__) if is_iterator(space.get(name))}
    for name in sorted(kept.union(_rebound(function.__code__))):
        yield (id(space), name), Variable(name, space)


def _rebound(code: types.CodeType) -> Iterator[str]:
    """Yield the globals that code assigns to."""
    if not _STORES.isdisjoint(code.co_code[::2]):
        steps = dis.get_instructions(code)
        yield from {step.argval for step in steps if step.opcode in _STORES}
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _rebound(const)


def _holders(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function has in its defaults and reaches among its globals, except functions."""
    defaults = function.__defaults__ or ()
    code = function.__code__
    given = code.co_varnames[: code.co_argcount]
    yield from zip(given[len(given) - len(defaults) :], defaults)
    yield from (function.__kwdefaults__ or {}).items()
    space = function.__globals__
    for name in names(code) & space.keys():
        thing = space[name]
        if type(thing) not in SIMPLE and _is_data(thing):
            yield name, thing
