"""Functions that a model can reach: those that may have to be respelled.

They are found by name, before it runs. Functions that it calls otherwise, as one from a registry,
are known after it has run: then it is recorded once more, if the first file was wrong.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...budget import BUDGET
from ..model_packages import is_guest

_BOUND = (types.MethodType, staticmethod, classmethod)
# Other objects are asked for nothing: one that stands for a library loads it when it is asked.
_CACHED: Any = type(functools.cache(len))
_OF_CODE = (types.FunctionType, type, _CACHED, *_BOUND)
_TABLES = (dict, list, tuple)
_SKIPPED = frozenset(
    """hx torch numpy math typing builtins functools collections copy abc contextlib dataclasses enum
    importlib inspect logging os re threading types warnings weakref""".split()
)


def reachable(
    function: Any,
    modules: Iterable[torch.nn.Module],
    attributes: Iterable[Any],
    unnamed: Iterable[types.FunctionType],
) -> Iterator[types.FunctionType]:
    """The functions that the model's own code names, beginning with its forwards.

    Its own code lies beside a forward; an import of that is followed in its own module. `unnamed`
    are functions that the model calls and that no name leads to.
    """
    owners: dict[type, None] = {}
    for kind in {type(module): None for module in modules}:
        owners.update(dict.fromkeys(kind.__mro__))
    begins = [c for c in owners if any(n in vars(c) for n in _RUNS) and not _foreign(c.__module__)]
    front = [*_functions([function]), *unnamed, *_functions(attributes)]
    for kind in begins:
        front += _functions(vars(kind)[n] for n in _RUNS if n in vars(kind))
    near = {c.__module__ for c in begins} | {f.__module__ for f in front}
    methods = _methods(kind for kind in owners if kind.__module__ in near)
    seen = set()
    while front:
        function = front.pop()
        if function in seen or _foreign(function.__module__):
            continue
        seen.add(function)
        yield function
        front += _functions(_around(function))
        said = names(function.__code__)
        for name in said & methods.keys():
            front += _functions(methods[name])
        for thing in _opened(_named(said, function)):
            if isinstance(thing, _OF_CODE) and _belongs(thing.__module__, function, near):
                front += _functions(vars(thing).values() if isinstance(thing, type) else [thing])


_RUNS = ("forward", "__call__")


def _methods(kinds: Iterable[type]) -> dict[str, list[Any]]:
    """The attributes of classes, by name."""
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        for name, thing in vars(kind).items():
            found.setdefault(name, []).append(thing)
    return found


def _belongs(home: Any, function: types.FunctionType, near: set[str]) -> bool:
    """Return True if something from module `home` is part of the model, where a function names it."""
    same = _family(home) == _family(function.__module__)
    return same or (function.__module__ in near and home is not None)


def running(codes: Iterable[types.CodeType]) -> list[types.FunctionType]:
    """The model's functions with these codes."""
    ids = {id(code) for code in codes}
    found = gc.get_referrers(*codes) if ids else []
    functions = [f for f in found if isinstance(f, types.FunctionType)]
    return [f for f in functions if id(f.__code__) in ids and not _foreign(f.__module__)]


def _family(module: Any) -> Any:
    """The package that a module belongs to."""
    return module.partition(".")[0] if isinstance(module, str) else module


def _named(names: frozenset[str], function: types.FunctionType) -> Iterator[Any]:
    """Globals by these names, and what modules among them hold by these names, and so on.

    Modules may also be imported in the function, or around it.
    """
    waiting = [*_by(names, function.__globals__), *_by(names, sys.modules)]
    waiting += [thing for thing in _around(function) if isinstance(thing, types.ModuleType)]
    seen = set()
    while waiting:
        thing = waiting.pop()
        if not isinstance(thing, types.ModuleType):
            yield thing
        elif thing.__name__ not in seen and not _foreign(thing.__name__):
            seen.add(thing.__name__)
            waiting += _by(names, vars(thing))


def _by(names: frozenset[str], space: dict[str, Any]) -> list[Any]:
    return [space[name] for name in names & space.keys()]


def _foreign(module: Any) -> bool:
    if not isinstance(module, str):
        return True
    return module.partition(".")[0] in _SKIPPED and not is_guest(module)


# Keyed by identity: the hash of a code object is computed from all of it, each time.
_said: dict[int, tuple[types.CodeType, frozenset[str]]] = {}


def names(code: types.CodeType) -> frozenset[str]:
    """The names of attributes and globals in a function, and in those inside of it."""
    known = _said.get(id(code))
    if known is None:
        inside = [names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
        if len(_said) >= BUDGET.objects.cached:
            _said.clear()
        known = _said[id(code)] = code, frozenset(code.co_names).union(*inside)
    return known[1]


def say(name: str, things: Iterable[Any]) -> bool:
    """Return True if one of these methods, or its replacement, mentions the name."""
    front = _functions(things)
    front += [inner for function in front for inner in _functions(_around(function))]
    return any(name in names(function.__code__) for function in front)


def _functions(things: Iterable[Any]) -> list[types.FunctionType]:
    """The plain functions in methods, properties, tables, and under decorators."""
    found = []
    for thing in _opened(things):
        if isinstance(thing, _BOUND):
            thing = thing.__func__
        elif isinstance(thing, property):
            thing = thing.fget
        while isinstance(thing, functools.partial):
            thing = thing.func
        if isinstance(thing, _CACHED):
            thing = thing.__wrapped__
        if not isinstance(thing, types.FunctionType):
            continue
        found.append(thing)
    return found


def _opened(things: Iterable[Any]) -> Iterator[Any]:
    """Things with the items of small tables in place of the tables."""
    for thing in things:
        if type(thing) not in _TABLES:
            yield thing
        elif len(thing) <= BUDGET.objects.functions_in_a_table:
            # A copy: other threads may add to it.
            yield from [*(thing.values() if type(thing) is dict else thing)]


def _around(function: types.FunctionType) -> list[Any]:
    """Things that a function refers to: closure, defaults, and the function that it decorates."""
    return [c.cell_contents for c in function.__closure__ or () if _filled(c)]


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
