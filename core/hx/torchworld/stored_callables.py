"""A search for the places where callables without code of their own are stored, to hook them there.

These are the globals of modules, their classes, the closures of functions (the result of a
decorator holds the function that it decorates), the modules of the model, and the dicts in all of
these.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..pristine_builtins import PRISTINE

_SKIPPED = {"torch", "numpy", "onnx", "onnx_ir", "onnxruntime", "hx", "hx_converters", "rich"}
_SKIPPED |= {"ml_dtypes", "sympy", "mpmath", "jinja2", *sys.stdlib_module_names}

_BOUND = (types.MethodType, staticmethod, classmethod)

Place = tuple[Any, str]
Held = tuple[Any, str, Any]  # with what is stored there
# Keyed by module and question: the module, its length, and the things found.
_seen: dict[tuple[str, Callable], tuple[types.ModuleType, int, list[Held]]] = {}
_all: dict[Callable, _Found] = {}  # by question


class Among:
    """A test for being one of some things, equal for two exports that ask for the same."""

    def __init__(self, things: Iterable[Any]) -> None:
        self.things = tuple(things)
        self._ids = frozenset(map(id, self.things))

    def __call__(self, x: Any) -> bool:
        return id(x) in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Among) and other._ids == self._ids

    def __hash__(self) -> int:
        return hash(self._ids)


class _Found:
    """The things found in all modules, valid while none of them grows."""

    def __init__(self, loaded: dict[str, Any], wanted: Callable[[Any], bool]) -> None:
        self.loaded = list(loaded.values())
        searched = [
            (key, module)
            for key, module in loaded.items()
            if isinstance(module, types.ModuleType) and key.partition(".")[0] not in _SKIPPED
        ]
        self.spaces = [vars(module) for _, module in searched]
        self.lengths = list(map(len, self.spaces))
        self.held = [held for key, m in searched for held in _in_module(key, m, wanted)]

    def holds(self, loaded: dict[str, Any]) -> bool:
        same = len(loaded) == len(self.loaded)
        same = same and all(map(operator.is_, loaded.values(), self.loaded))
        return same and list(map(len, self.spaces)) == self.lengths


def held(
    function: Any,
    modules: Iterable[Any],
    attributes: Iterable[tuple],
    wanted: Callable[[Any], Any],
) -> list[Held]:
    """Owner, name and value of each thing that is wanted, in libraries other than torch's own.

    It is searched in what is imported, in the Python modules of a function and of torch modules,
    and in the attributes of the latter.
    """
    found = []
    known = _in_modules(wanted)
    there = {(id(owner), name) for owner, name, _ in known}
    # In the model's own modules a name may hold something else than last time.
    again = [each for module in _own(function, modules) for each in _search_all(module, wanted)]
    known = [*known, *(each for each in again if (id(each[0]), each[1]) not in there)]
    for owner, name, thing in known:
        now = _held(owner, name)
        if now is thing or wanted(now):
            found.append((owner, name, now))
    for _, module, name, x in attributes:
        if wanted(x):
            found.append((module, name, x))
        elif type(x) is dict:
            found += [(x, key, inner) for key, inner in x.items() if wanted(inner)]
    return found


def _own(function: Any, modules: Iterable[Any]) -> list[types.ModuleType]:
    """The Python modules that define a function and the classes of torch modules."""
    kinds = [type(module) for module in modules]
    homes = dict.fromkeys(getattr(x, "__module__", None) for x in (*kinds, function))
    found = (sys.modules.get(home) for home in homes if isinstance(home, str))
    own = [module for module in found if isinstance(module, types.ModuleType)]
    return [module for module in own if module.__name__.partition(".")[0] not in _SKIPPED]


def _in_modules(wanted: Callable[[Any], bool]) -> list[Held]:
    loaded = sys.modules.copy()
    found = _all.get(wanted)
    if found is None or not found.holds(loaded):
        found = _all[wanted] = _Found(loaded, wanted)
    return found.held


def _in_module(key: str, module: types.ModuleType, wanted: Callable[[Any], bool]) -> list[Held]:
    known = _seen.get((key, wanted))
    if known is None or known[0] is not module or known[1] != len(vars(module)):
        known = _seen[key, wanted] = module, len(vars(module)), _search_all(module, wanted)
    return known[2]


def _search_all(module: types.ModuleType, wanted: Callable[[Any], bool]) -> list[Held]:
    space = vars(module)
    return [(owner, name, _held(owner, name)) for owner, name in _search(module, space, wanted)]


def _search(
    module: types.ModuleType, space: dict[str, Any], wanted: Callable[[Any], bool]
) -> Iterator[Place]:
    known: set[int] = set()
    for name, thing in list(space.items()):
        if wanted(thing):
            yield module, name
        elif type(thing) is dict and thing is not PRISTINE and name != "__builtins__":
            yield from ((thing, key) for key, x in list(thing.items()) if wanted(x))
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            for inner, x in list(vars(thing).items()):
                if wanted(x):
                    yield thing, inner
                else:
                    yield from _around(x, wanted, known)
        else:
            yield from _around(thing, wanted, known)


def _around(thing: Any, wanted: Callable[[Any], bool], known: set[int]) -> Iterator[Place]:
    """The cells of a function, and of the functions in them."""
    # Test the type: some objects answer to every name, and some import modules when asked.
    function = thing.__func__ if type(thing) in _BOUND else thing
    if type(function) is not types.FunctionType or id(function) in known:
        return
    known.add(id(function))
    for cell in function.__closure__ or ():
        inside = _held(cell, "cell_contents")
        if wanted(inside):
            yield cell, "cell_contents"
        else:
            yield from _around(inside, wanted, known)


def _held(owner: Any, name: str) -> Any:
    if isinstance(owner, types.CellType):
        try:
            return owner.cell_contents
        except ValueError:  # nothing yet
            return None
    return (owner if isinstance(owner, dict) else vars(owner)).get(name)
